"""Old rows that are over are deleted, in small transactions; young, unfinished or needed ones stay."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from database_server import as_written
from lifecycle_steps import HOT_PATH, waits_for_a_lock
from sweep_steps import poison

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.retention import MOST_ROWS, Category, Pruned, ages_of, prunable, prune
from horsies.store.worker_states import elect

DEFAULTS = ages_of(RecoveryConfig())
OLD, YOUNG = "now() - interval '31 days'", "now() - interval '29 days'"
TERMINAL = ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
PRUNED = (
    "heartbeats",
    "worker_states",
    "queue_samples",
    "schedulers",
    "sweep_state",
    "workflows",
    "workflow_tasks",
    "tasks",
    "schedule_runs",
    "worker_losses",
    "sweeps",
    "outages",
    "operator_actions",
)


async def insert(conn: asyncpg.Connection, table: str, **columns: Any) -> None:
    """One row; a column is given as an SQL expression."""
    await conn.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(columns.values())})")


async def add_task(conn: asyncpg.Connection, task_id: str, status: str, **columns: str) -> None:
    given = {"task_name": "'demo.add'", "queue_name": "'default'", "created_at": OLD, "updated_at": OLD, **columns}
    await insert(conn, "horsies_tasks", id=f"'{task_id}'", status=f"'{status}'", **given)


async def add_workflow(conn: asyncpg.Connection, workflow_id: str, status: str, ended: str, **columns: str) -> None:
    given = {"name": "'demo'", "created_at": OLD, "updated_at": ended, "completed_at": ended, **columns}
    await insert(conn, "horsies_workflows", id=f"'{workflow_id}'", status=f"'{status}'", **given)


async def add_node(conn: asyncpg.Connection, workflow_id: str, index: int, task_id: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)"
        " VALUES ($1, $2, $3, 'demo.add', 'COMPLETED', $4)",
        f"{workflow_id}-{index}",
        workflow_id,
        index,
        task_id,
    )


async def add_beats(conn: asyncpg.Connection, count: int, age: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        f" SELECT 't', 'w', 'runner', now() - interval '{age}' FROM generate_series(1, {count})"
    )


async def add_losses(conn: asyncpg.Connection, count: int, age: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_worker_losses (worker_id, taken_at, failed)"
        f" SELECT 'w', now() - interval '{age}', '{{t}}' FROM generate_series(1, {count})"
    )


async def add_history(conn: asyncpg.Connection, count: int, age: str) -> None:
    """Outages, and sweeps that changed something."""
    await conn.execute(
        "INSERT INTO horsies_outages (began_at, ended_at)"
        f" SELECT '2020-01-01Z', now() - interval '{age}' FROM generate_series(1, {count});"
        "INSERT INTO horsies_sweeps (swept_at, expired, repairs, workflows)"
        f" SELECT now() - interval '{age}', 1, 0, 0 FROM generate_series(1, {count});"
        "INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)"
        f" SELECT date_trunc('minute', now() - interval '{age}') - n * interval '10 s', 'q', 1"
        f"   FROM generate_series(1, {count}) n"
    )


async def add_schedule_runs(conn: asyncpg.Connection, count: int, age: str) -> None:
    """All sent by one statement, as the schedules that come due together."""
    await conn.execute(
        "INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at)"
        f" SELECT 'run ' || n % 7, now() - n * interval '1.000001 s', now() - interval '{age}'"
        f" FROM generate_series(1, {count}) n"
    )


async def add_duties(conn: asyncpg.Connection, count: int, age: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, interval_ms)"
        f" SELECT 'runs ' || n, now() - interval '{age}', 30000 FROM generate_series(1, {count}) n"
    )


async def test_runs_of_schedules_go_with_the_tasks_and_what_waits_to_be_started_stays(
    connection: asyncpg.Connection,
) -> None:
    await add_schedule_runs(connection, 3, "31 days")
    await connection.execute(
        "INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at) VALUES"
        " ('ordered', now() - interval '31 days', 'infinity'), ('young', now() - interval '31 days', now())"
    )
    assert (await prune(connection, DEFAULTS)).rows["schedule_runs"] == 3
    kept = await connection.fetch("SELECT schedule_name FROM horsies_schedule_runs ORDER BY 1")
    assert [row["schedule_name"] for row in kept] == ["ordered", "young"]


async def test_duties_of_thresholds_that_no_worker_has_go_and_the_others_stay(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, interval_ms) VALUES"
        " ('runs 6000', now() - interval '8 days', 1000),"
        " ('claims 6000', now() - interval '6 days', 1000), ('recovery', now() - interval '8 days', 1000)"
    )
    assert (await prune(connection, DEFAULTS)).rows["sweep_state"] == 1
    assert await connection.fetchval("SELECT array_agg(sweep ORDER BY sweep) FROM horsies_sweep_state") == [
        "claims 6000", "recovery"
    ]  # fmt: skip


async def test_an_election_that_is_won_while_it_is_pruned_stays(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await add_duties(connection, 1, "8 days")
    async with connection.transaction():
        assert await elect(connection, "runs 1", "w", 1_000) is None
        deleting = await waits_for_a_lock(connection, other, prune(other, DEFAULTS))
    assert (await deleting).rows["sweep_state"] == 0


async def add_states(conn: asyncpg.Connection, count: int, age: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,"
        " queues, worker_started_at, snapshot_at)"
        f" SELECT 'w', 'h', 1, 1, 1, 1, '{{}}', now(), now() - interval '{age}' FROM generate_series(1, {count})"
    )


async def add_actions(conn: asyncpg.Connection, count: int, age: str) -> None:
    """Operator actions, each of which but the first undoes the previous one."""
    await conn.execute(
        as_written(
            "INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome)"
            f" SELECT now() - interval '{age}', gen_random_uuid(), 'fail', 'task', 't', 'applied'"
            f" FROM generate_series(1, {count});"
            "UPDATE horsies_operator_actions SET undoes = id - 1 WHERE id > 1"
        )
    )


async def left(conn: asyncpg.Connection, table: str = "horsies_tasks") -> set[str]:
    return {row["id"] for row in await conn.fetch(f"SELECT id::text FROM {table}")}


async def count(conn: asyncpg.Connection, table: str) -> int:
    return int(await conn.fetchval(f"SELECT count(*) FROM {table}"))


@pytest.mark.parametrize("status", TERMINAL)
async def test_old_final_tasks_go_with_their_attempts(connection: asyncpg.Connection, status: str) -> None:
    time = "completed_at" if status == "COMPLETED" else "failed_at"
    await add_task(connection, "old", status, **{time: OLD})
    await add_task(connection, "young", status, **{time: YOUNG})
    await connection.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT id, 1, 'FAILED', now(), now() FROM horsies_tasks"
    )
    assert (await prune(connection, DEFAULTS)).rows["tasks"] == 1
    assert await left(connection) == {"young"}
    assert await connection.fetchval("SELECT array_agg(task_id) FROM horsies_task_attempts") == ["young"]


@pytest.mark.parametrize("status", TERMINAL)
async def test_final_tasks_without_a_time_of_their_end_go_by_their_last_change(
    connection: asyncpg.Connection, status: str
) -> None:
    """Upstream cancels without writing either time."""
    await add_task(connection, "old", status)
    await add_task(connection, "changed", status, updated_at=YOUNG)
    await add_task(connection, "new", status, created_at=YOUNG, updated_at=YOUNG)
    assert (await prune(connection, DEFAULTS)).rows["tasks"] == 1
    assert await left(connection) == {"changed", "new"}


@pytest.mark.parametrize("status", ["PENDING", "CLAIMED", "RUNNING"])
async def test_unfinished_tasks_stay_however_old(connection: asyncpg.Connection, status: str) -> None:
    await add_task(connection, "t", status, failed_at=OLD, completed_at=OLD)
    await prune(connection, DEFAULTS)
    assert await left(connection) == {"t"}


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "PAUSED"])
async def test_tasks_of_an_unfinished_workflow_stay(connection: asyncpg.Connection, status: str) -> None:
    await add_workflow(connection, "w", status, OLD)
    for index, columns in enumerate([{"completed_at": OLD}, {}]):
        await add_task(connection, f"t{index}", "COMPLETED", is_workflow_task="true", **columns)
        await add_node(connection, "w", index, f"t{index}")
    await prune(connection, DEFAULTS)
    assert await left(connection) == {"t0", "t1"}
    assert await count(connection, "horsies_workflow_tasks") == 2


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "CANCELLED"])
async def test_an_old_workflow_goes_with_its_nodes_and_tasks(connection: asyncpg.Connection, status: str) -> None:
    for name, ended in (("old", OLD), ("young", YOUNG)):
        await add_workflow(connection, name, status, ended)
        await add_task(connection, f"of-{name}", "COMPLETED", completed_at=ended)
        await add_node(connection, name, 0, f"of-{name}")
    done = await prune(connection, DEFAULTS)
    assert (done.rows["workflows"], done.rows["workflow_tasks"], done.rows["tasks"]) == (1, 1, 1)
    assert await left(connection, "horsies_workflows") == {"young"}
    assert await left(connection) == {"of-young"}


async def test_a_workflow_without_an_end_goes_by_its_last_change(connection: asyncpg.Connection) -> None:
    await add_workflow(connection, "old", "CANCELLED", OLD, completed_at="NULL")
    await add_workflow(connection, "changed", "CANCELLED", YOUNG, completed_at="NULL")
    await prune(connection, DEFAULTS)
    assert await left(connection, "horsies_workflows") == {"changed"}


@pytest.mark.parametrize(("status", "ended"), [("RUNNING", OLD), ("COMPLETED", YOUNG)])
async def test_a_parent_stays_as_long_as_one_of_its_descendants(
    connection: asyncpg.Connection, status: str, ended: str
) -> None:
    """Deleting its row would delete theirs, running or not."""
    await add_workflow(connection, "root", "CANCELLED", OLD, root_workflow_id="'root'")
    of_root = {"root_workflow_id": "'root'", "depth": "1"}
    await add_workflow(connection, "child", "COMPLETED", OLD, parent_workflow_id="'root'", **of_root)
    await add_workflow(connection, "grandchild", status, ended, parent_workflow_id="'child'", **of_root)
    await prune(connection, DEFAULTS)
    assert await left(connection, "horsies_workflows") == {"root", "child", "grandchild"}
    await connection.execute(f"UPDATE horsies_workflows SET status = 'FAILED', completed_at = {OLD}")
    assert (await prune(connection, DEFAULTS)).rows["workflows"] == 3


async def test_heartbeats_and_snapshots_go_by_their_own_ages(connection: asyncpg.Connection) -> None:
    await add_beats(connection, 3, "25 h")
    await add_beats(connection, 4, "23 h")
    await add_states(connection, 5, "8 days")
    await add_states(connection, 6, "6 days")
    done = await prune(connection, DEFAULTS)
    assert (done.rows["heartbeats"], done.rows["worker_states"]) == (3, 5)
    assert (await count(connection, "horsies_heartbeats"), await count(connection, "horsies_worker_states")) == (4, 6)


async def test_operator_actions_go_after_a_year(connection: asyncpg.Connection) -> None:
    """The one that undid an old one is young: it stays, and its reference is cleared."""
    await add_actions(connection, 3, "366 days")
    await add_actions(connection, 2, "364 days")
    assert await connection.fetchval("SELECT undoes FROM horsies_operator_actions WHERE id = 4") == 3
    assert (await prune(connection, DEFAULTS)).rows["operator_actions"] == 3
    rows = await connection.fetch("SELECT id, undoes FROM horsies_operator_actions ORDER BY id")
    assert [tuple(row) for row in rows] == [(4, None), (5, 4)]


async def test_an_operation_that_is_being_undone_is_left_without_waiting(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await add_actions(connection, 2, "366 days")
    await connection.execute("SET lock_timeout = '1s'")
    async with other.transaction():
        await other.execute(
            "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, undoes)"
            " VALUES (gen_random_uuid(), 'undo', 'task', 't', 'applied', 1)"
        )
        done = await prune(connection, DEFAULTS)
    assert (done.rows["operator_actions"], done.refused) == (1, ())
    assert await left(connection, "horsies_operator_actions") == {"1", "3"}


@pytest.mark.parametrize("category", Category)
async def test_each_category_can_be_kept_for_ever(connection: asyncpg.Connection, category: Category) -> None:
    field = category.value.removesuffix("s") + "_retention_hours"
    await add_beats(connection, 1, "400 days")
    await add_states(connection, 1, "400 days")
    await add_duties(connection, 1, "400 days")
    await add_task(connection, "t", "COMPLETED", completed_at=OLD)
    await add_workflow(connection, "w", "COMPLETED", OLD)
    await add_actions(connection, 1, "400 days")
    await add_losses(connection, 1, "400 days")
    await add_history(connection, 1, "400 days")
    await add_schedule_runs(connection, 1, "400 days")
    tables = {
        Category.HEARTBEATS: {"heartbeats"},
        Category.WORKER_STATES: {"worker_states", "queue_samples", "sweep_state"},
        Category.TERMINAL_RECORDS: {"tasks", "workflows", "schedule_runs"},
        Category.OPERATOR_ACTIONS: {"worker_losses", "sweeps", "outages", "operator_actions"},
    }
    done = await prune(connection, ages_of(RecoveryConfig(**{field: None})))
    every = set().union(*tables.values())
    assert {name for name, rows in done.rows.items() if rows} == every - tables[category]
    for table in every:
        assert await count(connection, f"horsies_{table}") == (1 if table in tables[category] else 0)


async def test_nothing_is_pruned_where_everything_is_kept(connection: asyncpg.Connection) -> None:
    keep = {category.value.removesuffix("s") + "_retention_hours": None for category in Category}
    await add_beats(connection, 1, "400 days")
    assert await prune(connection, ages_of(RecoveryConfig(**keep))) == Pruned({})
    assert await count(connection, "horsies_heartbeats") == 1


def test_beats_by_which_a_run_is_judged_are_not_pruned_before() -> None:
    """A threshold of two hours, and the last beat deleted after one: the run would appear as old as its start."""
    config = RecoveryConfig(heartbeat_retention_hours=1, running_stale_threshold_ms=7_200_000)
    assert ages_of(config)[Category.HEARTBEATS] == 7_200


async def test_no_transaction_deletes_more_than_5_000_rows(database: str, connection: asyncpg.Connection) -> None:
    """Recorded by a trigger that notes the transaction of each deletion."""
    await connection.execute("CREATE TABLE gone (what text, xid xid8)")
    await connection.execute(
        "CREATE FUNCTION note() RETURNS trigger AS"
        " $$ BEGIN INSERT INTO gone SELECT TG_RELID::regclass::text, pg_current_xact_id() FROM old; RETURN NULL; END $$"
        " LANGUAGE plpgsql"
    )
    for table in (*PRUNED, "task_attempts"):
        await connection.execute(
            f"CREATE TRIGGER note AFTER DELETE ON horsies_{table} REFERENCING OLD TABLE AS old"
            " FOR EACH STATEMENT EXECUTE FUNCTION note()"
        )
    await add_beats(connection, 12_000, "3 days")
    await add_states(connection, 6_000, "9 days")
    await add_duties(connection, 20, "9 days")
    await add_actions(connection, 6_000, "366 days")
    await add_losses(connection, 20, "366 days")
    await add_history(connection, 20, "366 days")
    await add_schedule_runs(connection, 12_000, "31 days")
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, retry_count, completed_at)"
        f" SELECT n::text, 'x', 'q', 'COMPLETED', 2, {OLD} FROM generate_series(1, 4000) n;"
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)"
        " SELECT id, n, 'FAILED', now(), now() FROM horsies_tasks, generate_series(1, 3) n;"
        "INSERT INTO horsies_workflows (id, name, status, completed_at)"
        f" SELECT n::text, 'x', 'COMPLETED', {OLD} FROM generate_series(1, 700) n;"
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status)"
        " SELECT id || '-' || n, id, n, 'x', 'COMPLETED' FROM horsies_workflows, generate_series(1, 10) n;"
    )
    await connection.execute("SET session_replication_role = origin")
    dedicated = await asyncpg.connect(database, server_settings=HOT_PATH)
    expected = await prunable(dedicated, DEFAULTS)
    done = await prune(dedicated, DEFAULTS)
    await dedicated.close()
    assert done.rows == expected
    assert done.rows == {
        "heartbeats": 12_000,
        "worker_states": 6_000,
        "queue_samples": 20,
        "schedulers": 0,
        "sweep_state": 20,
        "workflows": 700,
        "workflow_tasks": 7_000,
        "tasks": 4_000,
        "schedule_runs": 12_000,
        "worker_losses": 20,
        "sweeps": 20,
        "outages": 20,
        "operator_actions": 6_000,
    }
    sizes = [row["count"] for row in await connection.fetch("SELECT count(*) FROM gone GROUP BY xid")]
    assert sum(sizes) == sum(done.rows.values()) + 12_000
    assert 4_000 < max(sizes) <= MOST_ROWS


async def test_a_row_that_cannot_be_deleted_is_reported_and_stepped_over(connection: asyncpg.Connection) -> None:
    """A table of the application that refers to tasks is enough."""
    for number in range(40):
        await add_task(connection, f"t{number:02}", "COMPLETED", completed_at=OLD)
    await add_beats(connection, 3, "2 days")
    await connection.execute("CREATE TABLE orders (task_id varchar(36) REFERENCES horsies_tasks (id))")
    await connection.execute("INSERT INTO orders VALUES ('t07')")
    await poison(connection, "horsies_heartbeats", "DELETE", "2")
    done = await prune(connection, DEFAULTS)
    assert (done.rows["heartbeats"], done.rows["tasks"], done.complete) == (2, 39, True)
    assert [one.item for one in done.refused] == ["heartbeats 2", "tasks t07"]
    assert "ForeignKeyViolationError" in done.refused[1].error
    assert await left(connection) == {"t07"}
    assert done.report()["refused"] == 2


async def test_locked_rows_are_left_without_waiting(connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
    for name in ("held", "free"):
        await add_task(connection, name, "FAILED", failed_at=OLD)
        await add_workflow(connection, name, "FAILED", OLD)
    await connection.execute("SET lock_timeout = '1s'")
    async with other.transaction():
        await other.execute("SELECT FROM horsies_tasks WHERE id = 'held' FOR UPDATE")
        await other.execute("SELECT FROM horsies_workflows WHERE id = 'held' FOR UPDATE")
        done = await prune(connection, DEFAULTS)
    assert (done.rows["tasks"], done.rows["workflows"], done.refused) == (1, 1, ())
    assert await left(connection) == await left(connection, "horsies_workflows") == {"held"}


async def test_a_pass_without_time_left_stops_after_a_page_and_says_so(connection: asyncpg.Connection) -> None:
    await add_beats(connection, MOST_ROWS + 1, "2 days")
    done = await prune(connection, DEFAULTS, budget_s=0)
    assert (done.rows["heartbeats"], done.complete) == (MOST_ROWS, False)
    assert (await prune(connection, DEFAULTS)).rows["heartbeats"] == 1


async def test_counting_changes_nothing(connection: asyncpg.Connection) -> None:
    await add_beats(connection, 3, "2 days")
    await add_task(connection, "t", "CANCELLED")
    async with connection.transaction(readonly=True):
        rows = await prunable(connection, DEFAULTS)
    assert rows == dict.fromkeys(PRUNED, 0) | {"heartbeats": 3, "tasks": 1}
    assert await count(connection, "horsies_heartbeats") == 3
