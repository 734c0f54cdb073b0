"""A created schema has all that upstream documents and `TABLES` lists; its triggers send what is documented."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest
from lifecycle_steps import listening

from horsies.store.schema import TABLES

UPSTREAM = Path(__file__).with_name("upstream_shape.sql")
# A time of upstream without a zone is one with a zone here, and an id of four bytes has eight.
COLUMNS = """
SELECT attrelid::regclass::text, attname, replace(format_type(atttypid, atttypmod), 'without time', 'with time'),
       attnotnull
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""
IDS = {(table, "id", "integer", True) for table in ("horsies_heartbeats", "horsies_worker_states")}


async def test_each_column_and_constraint_of_upstream_is_here(
    connection: asyncpg.Connection, empty_database: str
) -> None:
    upstream = await asyncpg.connect(empty_database)
    await upstream.execute(UPSTREAM.read_text("utf-8"))
    for query, wider in ((COLUMNS, IDS), (CONSTRAINTS, set())):
        theirs, ours = [{tuple(row) for row in await each.fetch(query)} for each in (upstream, connection)]
        assert theirs - ours == wider
    await upstream.close()


async def test_what_a_lease_renewal_writes_is_in_no_index(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'horsies_tasks'")
    for column in ("claim_expires_at", "finalizing_at", "finalizing_by_worker_id", "updated_at"):
        assert not [row["indexdef"] for row in rows if column in row["indexdef"]]


async def test_a_row_by_hand_needs_no_more_than_what_it_is_about(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'demo.add', 'default')"
    )
    await connection.execute("INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'ship', 'RUNNING')")
    await connection.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status)"
        " VALUES ('n', 'w', 0, 'demo.add', 'READY')"
    )
    await connection.execute("INSERT INTO horsies_heartbeats (task_id, sender_id, role) VALUES ('t', 'w', 'claimer')")
    await connection.execute("INSERT INTO horsies_schedule_state (schedule_name) VALUES ('nightly')")
    task = await connection.fetchrow("SELECT status, priority, enqueued_at <= now() AS due FROM horsies_tasks")
    assert tuple(task) == ("PENDING", 100, True)


@pytest.mark.parametrize(
    ("kind", "outcome"), [("task", "perhaps"), ("database", "applied")], ids=["outcome", "target kind"]
)
async def test_an_action_of_unknown_kind_is_not_recorded(
    connection: asyncpg.Connection, kind: str, outcome: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
            " VALUES (gen_random_uuid(), 'requeue', $1, 't', $2)",
            kind,
            outcome,
        )


async def test_the_list_of_contents_is_what_the_migrations_make(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name <> 'horsies_console_schema' GROUP BY table_name"
    )
    assert {row[0]: frozenset(row[1]) for row in rows} == {name: table.columns for name, table in TABLES.items()}
    triggers = await connection.fetch("SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal")
    listed = {(name, trigger) for name, table in TABLES.items() for trigger in table.triggers}
    assert {tuple(row) for row in triggers} == listed
    indexes = await connection.fetch("SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public'")
    needed = {(name, index) for name, table in TABLES.items() for index in table.indexes}
    assert needed <= {tuple(row) for row in indexes}


CHANNELS = (
    "task_new",
    "task_queue_mail",
    "task_done",
    "horsies_task_status",
    "horsies_worker_state",
    "workflow_done",
    "horsies_workflow_status",
)

TASK = "INSERT INTO horsies_tasks (id, task_name, queue_name, status) VALUES ('t', 'demo.add', 'mail', '{}')"
FLOW = "INSERT INTO horsies_workflows (id, name, status) VALUES ('wf', 'ship', '{}')"
SNAPSHOT = (
    "INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,"
    " queues, worker_started_at) VALUES ('w-1', 'host', 1, 2, 2, 2, '{mail}', now())"
)


@pytest.mark.parametrize(
    ("before", "step", "told"),
    [
        ("SELECT", TASK.format("PENDING"), ("t", "horsies_task_status task_new task_queue_mail")),
        ("SELECT", TASK.format("COMPLETED"), ("t", "horsies_task_status")),
        *(
            (
                TASK.format("RUNNING"),
                f"UPDATE horsies_tasks SET status = '{end}'",
                ("t", "horsies_task_status task_done"),
            )
            for end in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
        ),
        *(
            (TASK.format(status), f"UPDATE horsies_tasks SET status = '{then}'", ("t", "horsies_task_status"))
            for status, then in (("PENDING", "CLAIMED"), ("CLAIMED", "RUNNING"), ("RUNNING", "PENDING"))
        ),
        (TASK.format("CLAIMED"), "UPDATE horsies_tasks SET status = 'CLAIMED', claim_expires_at = now()", ("t", "")),
        ("SELECT", SNAPSHOT, ("w-1", "horsies_worker_state")),
        (SNAPSHOT, "UPDATE horsies_worker_states SET pid = 2", ("w-1", "horsies_worker_state")),
        ("SELECT", FLOW.format("RUNNING"), ("wf", "horsies_workflow_status")),
        *(
            (
                FLOW.format("RUNNING"),
                f"UPDATE horsies_workflows SET status = '{end}'",
                ("wf", "horsies_workflow_status workflow_done"),
            )
            for end in ("PAUSED", "COMPLETED", "FAILED", "CANCELLED")
        ),
        (FLOW.format("PAUSED"), "UPDATE horsies_workflows SET status = 'RUNNING'", ("wf", "horsies_workflow_status")),
        (FLOW.format("RUNNING"), "UPDATE horsies_workflows SET error = 'x'", ("wf", "")),
    ],
)
async def test_each_step_is_announced_on_its_channels_with_the_id(
    connection: asyncpg.Connection, database: str, before: str, step: str, told: tuple[str, str]
) -> None:
    await connection.execute(before)
    async with listening(database, connection, *CHANNELS) as ear:
        heard = await ear.after(connection.execute(step))
    assert heard == [(channel, told[0]) for channel in told[1].split()]


INSERT_INTO_QUEUE = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES (gen_random_uuid(), 'demo.add', $1)"


async def test_a_queue_name_of_52_bytes_fits_a_channel_and_one_of_53_fails(connection: asyncpg.Connection) -> None:
    for name in ("q" * 52, "ü" * 26):
        assert await connection.execute(INSERT_INTO_QUEUE, name) == "INSERT 0 1"
        with pytest.raises(asyncpg.PostgresError, match="channel name too long"):
            await connection.execute(INSERT_INTO_QUEUE, name + "q")
