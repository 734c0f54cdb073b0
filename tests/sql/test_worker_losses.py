"""The tasks of a lost worker are recorded, with what happened to each, until an operator acknowledges the loss."""

from __future__ import annotations

import shlex

import asyncpg
import pytest
from diagnose_steps import CRASH_POLICY, ago, claimed, running, worker
from operation_steps import undo
from view_steps import cost

from horsies.config.recovery import RecoveryConfig
from horsies.findings import Finding, FindingKind, Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.crashed import CRASHED, WORKER_DIED
from horsies.findings.searches.waiting_tasks import QUEUE_WITHOUT_WORKER
from horsies.lifecycle.recovering import recover
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verb import Preview
from horsies.operations.verbs import VERBS
from horsies.views import Liveness, WorkerRow, worker_rows
from horsies.views.workers import worker_losses

OPS = Actor("ops", "bastion")


async def killed(conn: asyncpg.Connection, worker_id: str = "web-3-88-aa", *, runs: int = 5, claims: int = 10) -> None:
    """It held so many tasks 15 minutes ago, at its last snapshot; then a sweep took them."""
    await worker(conn, worker_id, seconds=900)
    await running(conn, *(f"{worker_id}-r{n}" for n in range(runs)), seconds=905, worker=worker_id)
    await claimed(conn, *(f"{worker_id}-c{n}" for n in range(claims)), seconds=905, worker=worker_id)
    await recover(conn, RecoveryConfig())


async def row_of(conn: asyncpg.Connection, worker_id: str) -> WorkerRow:
    return next(row for row in await worker_rows(conn, gone_within=None) if row.id == worker_id)


async def report_of(conn: asyncpg.Connection) -> dict[FindingKind, Finding]:
    return {finding.kind: finding for finding in (await diagnose(conn)).findings}


async def acknowledge(conn: asyncpg.Connection, *ids: str, task: str | None = None) -> list[bool]:
    seen = await preview(conn, VERBS["worker", "acknowledge"], Selection.of_ids(ids), task=task)
    return [row.applied for row in (await apply(conn, seen, OPS, "power cut")).rows]


async def test_a_killed_worker_has_died_with_what_it_held_and_what_became_of_it(connection: asyncpg.Connection) -> None:
    await killed(connection)
    row = await row_of(connection, "web-3-88-aa")
    assert (row.liveness, row.in_flight) == (Liveness.DIED, 0)
    assert row.loss is not None
    at = f"{row.seen_at:%H:%M}Z"
    assert row.loss.words() == f"died {at} with 5 running, 10 claimed: 5 failed, 10 returned"
    everything = {f"web-3-88-aa-r{n}" for n in range(5)} | {f"web-3-88-aa-c{n}" for n in range(10)}
    assert set(row.loss.ids) == everything
    findings = await report_of(connection)
    assert {type(finding.ids) for finding in findings.values()} == {tuple}
    died, crashed = findings[WORKER_DIED], findings[CRASHED]
    assert (died.name, died.count, set(died.ids), died.evidence) == ("web-3-88-aa", 15, everything, row.loss.words())
    assert (crashed.prediction.severity, crashed.count) == (Severity.NEEDS_ACTION, 5)
    assert set(crashed.ids) == {f"web-3-88-aa-r{n}" for n in range(5)}


async def test_what_is_tried_again_is_told_as_such(connection: asyncpg.Connection) -> None:
    await worker(connection, "w-1", seconds=900)
    await running(connection, "r", seconds=905, max_retries="3", task_options=f"'{CRASH_POLICY}'")
    await recover(connection, RecoveryConfig())
    assert (await report_of(connection))[WORKER_DIED].evidence.endswith("with 1 running: 1 to be retried")


async def test_stopped_lost_and_died_are_different(connection: asyncpg.Connection) -> None:
    await killed(connection, "died")
    await worker(connection, "lost", seconds=40)
    await worker(connection, "stopped", seconds=40)
    await worker(connection, "killed-while-draining", seconds=40)
    await connection.execute("UPDATE horsies_worker_states SET draining = true WHERE worker_id ~ 'stopped|draining'")
    await connection.execute("UPDATE horsies_worker_states SET tasks_running = 1 WHERE worker_id ~ 'draining'")
    assert {row.id: row.liveness for row in await worker_rows(connection)} == {
        "died": Liveness.DIED,
        "lost": Liveness.LOST,
        "stopped": Liveness.STOPPED,
        "killed-while-draining": Liveness.LOST,
    }


async def test_it_is_remembered_for_days_until_it_is_acknowledged(connection: asyncpg.Connection) -> None:
    await killed(connection)
    for table, column in (("horsies_worker_states", "snapshot_at"), ("horsies_worker_losses", "taken_at")):
        await connection.execute(f"UPDATE {table} SET {column} = {column} - interval '3 days'")
    assert [row.liveness for row in await worker_rows(connection)] == [Liveness.DIED]
    assert WORKER_DIED in await report_of(connection)
    assert await acknowledge(connection, "web-3-88-aa") == [True]
    assert set(await report_of(connection)) == {QUEUE_WITHOUT_WORKER}  # for the ten that were returned
    assert (await row_of(connection, "web-3-88-aa")).liveness is Liveness.DIED
    trace = await connection.fetch(
        "SELECT target_kind, count(*), min(os_user), min(reason) FROM horsies_operator_actions"
        " WHERE verb = 'acknowledge' AND outcome = 'applied' GROUP BY 1 ORDER BY 1"
    )
    assert list(map(tuple, trace)) == [("task", 5, "ops", "power cut"), ("worker", 1, "ops", "power cut")]
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'FAILED'") == 5


async def test_what_is_acknowledged_is_refused_a_second_time_and_so_is_a_worker_that_lost_nothing(
    connection: asyncpg.Connection,
) -> None:
    await killed(connection)
    await worker(connection, "idle")
    twice = await preview(connection, VERBS["worker", "acknowledge"], Selection.of_ids(["web-3-88-aa"]))
    assert await acknowledge(connection, "web-3-88-aa") == [True]
    assert [row.applied for row in (await apply(connection, twice, OPS, None)).rows] == [False]
    again = await preview(connection, VERBS["worker", "acknowledge"], Selection.of_ids(["web-3-88-aa", "idle"]))
    assert (again.eligible, len(again.refused)) == ((), 2)


async def crashed(conn: asyncpg.Connection, worker_id: str, task_name: str, *ids: str) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at, claimed_by_worker_id)"
        " SELECT id, $2, 'default', 'FAILED', 'WORKER_CRASHED', statement_timestamp(), $1 FROM unnest($3::text[]) id",
        worker_id,
        task_name,
        ids,
    )


async def crashes_of(conn: asyncpg.Connection) -> dict[str, set[str]]:
    """The reported ids by task name."""
    return {one.name: set(one.ids) for one in (await diagnose(conn)).findings if one.kind is CRASHED}


async def remedy_of(conn: asyncpg.Connection, task_name: str) -> Preview:
    """Preview the acknowledgement that the report offers for this name."""
    (finding,) = (one for one in (await diagnose(conn)).findings if (one.kind, one.name) == (CRASHED, task_name))
    (remedy,) = (one for one in finding.remedies if one.verb == "acknowledge")
    return await preview(conn, VERBS["worker", "acknowledge"], Selection.of_ids(remedy.ids), **remedy.options)


HOSTILE = "shop'; DROP TABLE horsies_tasks; -- \x1b[31m"


@pytest.mark.parametrize("name", ["shop.mail", HOSTILE])
async def test_the_crashes_of_one_name_are_acknowledged_and_those_of_another_and_the_death_stay(
    connection: asyncpg.Connection, name: str
) -> None:
    await killed(connection, "w", runs=1)
    await crashed(connection, "w", name, "m1", "m2")
    await crashed(connection, "w", "shop.pdf", "p1")
    before = await crashes_of(connection)
    seen = await remedy_of(connection, name)
    assert seen.consequences[0] == f"w 2 tasks failed as it died: 2 {name}"
    assert seen.command == shlex.join(["horsies", "workers", "acknowledge", "w", "--task", name])
    outcome = await apply(connection, seen, OPS, "known")
    assert [row.applied for row in outcome.rows] == [True]
    assert await crashes_of(connection) == {one: ids for one, ids in before.items() if one != name}
    assert WORKER_DIED in await report_of(connection)
    trace = await connection.fetch("SELECT target_kind, target_id, detail FROM horsies_operator_actions ORDER BY id")
    assert sorted(map(tuple, trace)) == [
        ("task", one, f"crashed with w; acknowledged for {name} only") for one in ("m1", "m2")
    ]
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert [row.applied for row in undone.rows] == [True, True]
    assert await crashes_of(connection) == before


async def test_an_undo_reports_again_what_was_acknowledged_and_nobody_has_acted_on_since(
    connection: asyncpg.Connection,
) -> None:
    await killed(connection, "w", runs=0)
    await crashed(connection, "w", "shop.mail", "m1", "m2")
    await crashed(connection, "w", "shop.pdf", "p1", "p2")
    await apply(connection, await remedy_of(connection, "shop.mail"), OPS, None)
    whole = await apply(
        connection, await preview(connection, VERBS["worker", "acknowledge"], Selection.of_ids(["w"])), OPS, None
    )
    assert (whole.can_be_undone, await crashes_of(connection)) == (True, {})
    await connection.execute(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
        " VALUES (gen_random_uuid(), 'rerun', 'task', 'p2', 'applied')"
    )
    undone = await undo(connection, whole.operation_id, OPS, None)
    assert {row.target.id: row.applied for row in undone.rows} == {"w": True, "p1": True, "p2": False}
    assert await crashes_of(connection) == {"shop.pdf": {"p1"}}
    assert (await report_of(connection))[WORKER_DIED].name == "w"
    again = await undo(connection, whole.operation_id, OPS, None)
    assert {row.target.id: row.applied for row in again.rows} == {"w": False, "p1": False, "p2": False}
    assert await acknowledge(connection, "w") == [True]
    assert not {CRASHED, WORKER_DIED} & {*await report_of(connection)}


async def test_a_worker_of_the_version_before_left_no_record_of_its_losses_and_its_crashes_are_acknowledged(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "old", seconds=900)
    await crashed(connection, "old", "shop.mail", "m1")
    await crashed(connection, "old", "shop.pdf", "p1")
    assert await acknowledge(connection, "old", task="shop.mail") == [True]
    assert await acknowledge(connection, "old", task="shop.mail") == []
    assert await crashes_of(connection) == {"shop.pdf": {"p1"}}
    # The report of that version takes any later action on the task as handling it, and a row of the worker as knowing
    # of its death: there is none.
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions WHERE target_kind = 'worker'") == 0
    assert await acknowledge(connection, "old") == [True]
    assert await crashes_of(connection) == {}


async def test_a_worker_whose_snapshots_were_pruned_is_acknowledged_by_its_id_and_by_its_name(
    connection: asyncpg.Connection,
) -> None:
    """Retention deletes snapshots after a week, and both rows stayed in the report for ever."""
    await killed(connection, "web-3-88-aa", runs=1, claims=0)
    await crashed(connection, "web-4-99-bb", "shop.pdf", "p1")
    await connection.execute("DELETE FROM horsies_worker_states")
    await connection.execute("UPDATE horsies_worker_losses SET taken_at = taken_at - interval '8 days'")
    seen = await remedy_of(connection, "shop.pdf")
    assert (seen.refused, [one.id for one in seen.eligible]) == ((), ["web-4-99-bb"])
    assert seen.eligible[0].state == "unknown: it has no snapshot (any more) and no task"
    assert [row.applied for row in (await apply(connection, seen, OPS, None)).rows] == [True]
    assert set(await report_of(connection)) == {CRASHED, WORKER_DIED}
    assert await acknowledge(connection, "web-3:88") == [True]
    assert await report_of(connection) == {}
    drain = await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-3-88-aa"]))
    assert [one.reason for one in drain.refused] == ["no worker has that id"]


async def test_the_preview_counts_the_tasks_of_all_workers_and_no_later_crash_is_acknowledged_unseen(
    connection: asyncpg.Connection,
) -> None:
    for number in range(8):
        await worker(connection, f"w{number}", seconds=900)
        await crashed(connection, f"w{number}", "shop.mail", *(f"m{number}-{each}" for each in range(number + 1)))
        await crashed(connection, f"w{number}", "shop.pdf", f"p{number}")
    seen = await remedy_of(connection, "shop.mail")
    assert seen.consequences[:6] == (
        "w0 1 task failed as it died: 1 shop.mail",
        *(f"w{number} {number + 1} tasks failed as it died: {number + 1} shop.mail" for number in range(1, 5)),
        "3 more workers: 21 tasks failed as they died",
    )
    await crashed(connection, "w7", "shop.mail", "later")
    outcome = await apply(connection, seen, OPS, None)
    assert len(outcome.applied) == 8
    assert await crashes_of(connection) == {
        "shop.mail": {"later"},
        "shop.pdf": {f"p{number}" for number in range(8)},
    }
    audited = "SELECT count(*) FROM horsies_operator_actions WHERE operation_id = $1"
    assert await connection.fetchval(audited, outcome.operation_id) == 1 + 2 + 3 + 4 + 5 + 21


async def test_a_crashed_task_is_handled_by_any_later_action_and_not_by_the_recovery_that_failed_it(
    connection: asyncpg.Connection,
) -> None:
    await worker(connection, "w-1", seconds=900)
    await running(connection, "r", seconds=905)
    done = await apply(
        connection, await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["w-1"])), OPS, None
    )
    assert [row.applied for row in done.rows] == [True]
    # The operator knows of the death, because he recovered the worker; whether the task runs again is not decided.
    assert set(await report_of(connection)) == {CRASHED}
    await connection.execute(
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
        " VALUES (gen_random_uuid(), 'rerun', 'task', 'r', 'applied')"
    )
    assert await report_of(connection) == {}


async def test_a_second_death_is_told_though_the_first_one_is_acknowledged(connection: asyncpg.Connection) -> None:
    await killed(connection, "w", runs=1, claims=0)
    assert await acknowledge(connection, "w") == [True]
    await claimed(connection, "again", seconds=905, worker="w")
    await recover(connection, RecoveryConfig())
    assert (await report_of(connection))[WORKER_DIED].evidence.endswith("with 1 claimed: 1 returned")


async def test_a_worker_that_was_only_cut_off_has_not_died(connection: asyncpg.Connection) -> None:
    await killed(connection, "w", runs=0)
    await worker(connection, "w", seconds=0)
    row = await row_of(connection, "w")
    assert (row.liveness, row.loss) == (Liveness.ALIVE, None)
    assert await report_of(connection) == {}


@pytest.mark.parametrize("handled", [False, True])
async def test_the_report_reads_no_more_than_the_newest_crashed_tasks(
    connection: asyncpg.Connection, *, handled: bool
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
        f" SELECT 't' || n, 'demo.add', 'default', 'FAILED', 'WORKER_CRASHED', {ago(1)} - n * interval '1 s'"
        "   FROM generate_series(1, 12000) n"
    )
    if handled:
        await connection.execute(
            "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
            " SELECT gen_random_uuid(), 'rerun', 'task', id, 'applied' FROM horsies_tasks"
        )
    await connection.execute("VACUUM ANALYZE")
    whole, entries = await cost(connection, lambda: diagnose(connection))
    found = (await report_of(connection)).get(CRASHED)
    assert (found is None) is handled
    assert found is None or (found.count, found.at_least, len(found.ids)) == (5000, True, 500)
    assert whole < 200
    assert entries < 5_000 * 2 + 500


async def test_many_deaths_cost_a_refresh_no_more_than_the_newest_thousand_rows(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_worker_losses (worker_id, taken_at, returned)"
        f" SELECT 'w-' || n % 500, {ago(1)} - n * interval '1 s', '{{a,b}}' FROM generate_series(1, 20000) n;"
        "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
        " SELECT gen_random_uuid(), 'acknowledge', 'worker', 'w-' || n, 'applied' FROM generate_series(100, 499) n"
    )
    await connection.execute("VACUUM ANALYZE")
    whole, entries = await cost(connection, lambda: worker_losses(connection))
    found = await worker_losses(connection)
    assert (len(found), sum(loss.is_open for loss in found.values())) == (500, 100)
    assert whole == 0
    assert entries < 1_000 + 1_000 + 1_500
