"""Operators drain, resume and recover workers: refusals, changes, and audit rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import asyncpg
import pytest
from lifecycle_steps import attempts, claim_tokens, ended, enqueue, running, statuses, task
from operation_steps import OPS, audit, fall_silent, heard, snapshot, undo
from pulse_steps import pulse_row
from statements import statement

from horsies.lifecycle.claim_token import Verdict, beat
from horsies.lifecycle.finishing import OutcomeKind, finish
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.operations.verb import OperationOutcome, Preview, WorkerVerb
from horsies.operations.verbs import VERBS
from horsies.run.worker.orders import ORDERS_CHANNEL

RETRIES = {
    "max_retries": "1",
    "task_options": '\'{"retry_policy": {"auto_retry_for": ["WORKER_CRASHED"], "max_retries": 1,'
    ' "intervals": [60], "jitter": false}}\'',
}


async def act(conn: asyncpg.Connection, verb: WorkerVerb, *workers: str) -> OperationOutcome:
    return await apply(conn, await preview(conn, verb, Selection.of_ids(workers)), OPS, "because")


def reasons(found: Preview) -> dict[str, str]:
    return {refusal.target.id: refusal.reason for refusal in found.refused}


async def dead_worker(conn: asyncpg.Connection) -> Sequence[str]:
    """A worker that held a claim, a run that may be retried and one that may not, and is silent for ten minutes."""
    await snapshot(conn, "dead")
    await running(conn, "again", worker="dead", **RETRIES)
    await running(conn, "once", worker="dead")
    await enqueue(conn, "waiting")
    await claim_tokens(conn, "dead")
    await fall_silent(conn, "dead")
    return "again", "once", "waiting"


async def test_a_drain_is_an_order_that_reaches_the_worker_and_leaves_a_trace(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1")
    told = await heard(connection, ORDERS_CHANNEL)
    found = await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-1"]))
    assert [target.id for target in found.eligible] == ["web-1"]
    assert found.command == "horsies workers drain web-1"
    outcome = await apply(connection, found, OPS, "kernel update")
    assert [(row.target.id, row.applied) for row in outcome.rows] == [("web-1", True)]
    order = await connection.fetchrow("SELECT * FROM horsies_worker_orders")
    assert (order["worker_id"], order["ordered_by"], order["reason"]) == ("web-1", "ops@bastion", "kernel update")
    assert order["draining_since"] is not None
    (row,) = await audit(connection)
    assert row["operation_id"] == outcome.operation_id
    expected = ("drain", "worker", "web-1", "applied")
    assert (row["verb"], row["target_kind"], row["target_id"], row["outcome"]) == expected
    assert (row["os_user"], row["os_host"], row["reason"]) == ("ops", "bastion", "kernel update")
    assert row["before_state"] == {"draining_since": None}
    assert told == ["web-1"]


async def test_a_drained_worker_resumes_once(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1")
    await act(connection, VERBS["worker", "drain"], "web-1")
    told = await heard(connection, ORDERS_CHANNEL)
    found = await preview(connection, VERBS["worker", "resume"], Selection.of_ids(["web-1"]))
    first = await apply(connection, found, OPS, None)
    second = await apply(connection, found, OPS, None)
    assert ([row.applied for row in first.rows], [row.applied for row in second.rows]) == ([True], [False])
    assert second.rows[0].detail.startswith("it is alive")
    _, resumed, refused = await audit(connection)
    assert resumed["before_state"]["ordered_by"] == "ops@bastion"
    assert resumed["undoes"] is None
    assert (refused["outcome"], refused["detail"]) == ("refused", second.rows[0].detail)
    assert told == ["web-1"]
    assert (
        "no order to drain"
        in reasons(await preview(connection, VERBS["worker", "resume"], Selection.of_ids(["web-1"])))["web-1"]
    )


async def test_of_two_operators_who_drain_one_worker_one_is_told_who_was_first(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await snapshot(connection, "web-1")
    found = await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-1"]))
    outcomes = await asyncio.gather(*(apply(conn, found, OPS, None) for conn in (connection, other)))
    applied, refused = sorted((outcome.rows[0] for outcome in outcomes), key=lambda row: not row.applied)
    assert (applied.applied, refused.applied) == (True, False)
    assert refused.detail.startswith("it is draining since")
    assert refused.detail.endswith("by ops@bastion")
    assert sorted(row["outcome"] for row in await audit(connection)) == ["applied", "refused"]


async def test_a_drain_says_which_queues_have_no_worker_left(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1", queues=("mail", "pay"))
    await snapshot(connection, "web-2", queues=("pay",))
    await snapshot(connection, "web-3", queues=("mail",), silent_s=600)
    both = await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-1"]))
    assert [line for line in both.consequences if "no other" in line] == [
        "no other worker serves queue mail: its tasks stay there"
    ]


async def test_what_cannot_be_drained_is_refused_with_the_reason(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1-aa")
    await snapshot(connection, "web-1-bb")
    await snapshot(connection, "gone", silent_s=372)
    await act(connection, VERBS["worker", "drain"], "web-1-bb")
    named = Selection.of_ids(["web-1", "web-1-bb", "gone", "nobody", "aa", "web-1-aa"])
    found = await preview(connection, VERBS["worker", "drain"], named)
    assert [target.id for target in found.eligible] == ["web-1-aa"]  # by its end and by its id, and only once
    told = reasons(found)
    assert told["web-1"] == "2 workers match: web-1-aa, web-1-bb"
    assert told["nobody"] == "no worker has that id"
    assert told["gone"] == "it is lost: no sign of life for 6m12s"
    assert told["web-1-bb"].startswith("it is draining since")


async def test_everything_that_a_dead_worker_held_is_put_right_by_the_rules_of_the_sweep(
    connection: asyncpg.Connection,
) -> None:
    await dead_worker(connection)
    told, woken = await heard(connection, ORDERS_CHANNEL), await heard(connection, "task_queue_default")
    outcome = await act(connection, VERBS["worker", "recover"], "dead")
    (row,) = outcome.rows
    assert row.applied
    assert row.detail == "1 back in the queue, 1 to be tried again, 1 failed as WORKER_CRASHED"
    assert await statuses(connection) == {"again": "PENDING", "once": "FAILED", "waiting": "PENDING"}
    again, once, waiting = [await task(connection, name) for name in ("again", "once", "waiting")]
    assert (again["retry_count"], waiting["retry_count"], waiting["claimed_by_worker_id"]) == (1, 0, None)
    assert again["next_retry_at"] > again["updated_at"]
    assert (once["error_code"], json.loads(once["result"])["err"]["data"]["stale_threshold_ms"]) == (
        "WORKER_CRASHED",
        30_000,
    )
    for name, will_retry in (("again", True), ("once", False)):
        (attempt,) = await attempts(connection, name)
        assert (attempt["attempt"], attempt["error_code"], attempt["will_retry"]) == (1, "WORKER_CRASHED", will_retry)
    assert await attempts(connection, "waiting") == []
    assert told == ["dead"]
    assert woken


async def test_a_recovery_writes_one_row_for_the_worker_and_one_for_each_task(connection: asyncpg.Connection) -> None:
    names = await dead_worker(connection)
    outcome = await act(connection, VERBS["worker", "recover"], "dead")
    (worker,) = await audit(connection, "worker")
    assert (worker["target_id"], worker["outcome"], worker["detail"]) == ("dead", "applied", outcome.rows[0].detail)
    tasks = {row["target_id"]: row for row in await audit(connection, "task")}
    assert sorted(tasks) == sorted(names)
    assert {row["operation_id"] for row in (worker, *tasks.values())} == {outcome.operation_id}
    assert tasks["again"]["before_state"]["status"] == "RUNNING"
    assert tasks["again"]["before_state"]["claimed_by_worker_id"] == "dead"
    assert tasks["again"]["after_state"] == {"status": "PENDING", "retry_count": 1}
    assert tasks["waiting"]["before_state"]["status"] == "CLAIMED"


@pytest.mark.parametrize("sign", ["snapshot", "beat", "claim"])
async def test_a_worker_with_any_sign_of_life_is_not_recovered(connection: asyncpg.Connection, sign: str) -> None:
    await dead_worker(connection)
    if sign == "snapshot":
        await snapshot(connection, "dead", silent_s=20)
    elif sign == "beat":
        (token,) = await running(connection, "busy", worker="dead")
        await fall_silent(connection, "dead")
        row = await task(connection, "busy")
        assert await beat(connection, "dead", "host", [(type(token)("busy", "dead", row["claimed_at"]), 1)]) == set()
    else:
        await enqueue(connection, "new")
        await claim_tokens(connection, "dead")
    found = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["dead"]))
    assert found.eligible == ()
    assert reasons(found)["dead"].startswith("it is alive: last sign of life")


async def test_a_worker_that_comes_back_after_the_preview_keeps_what_it_has(connection: asyncpg.Connection) -> None:
    await dead_worker(connection)
    found = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["dead"]))
    await snapshot(connection, "dead")
    before = await statuses(connection)
    outcome = await apply(connection, found, OPS, None)
    assert [row.applied for row in outcome.rows] == [False]
    assert outcome.rows[0].detail.startswith("it is alive")
    assert await statuses(connection) == before
    (row,) = await audit(connection)
    assert (row["target_kind"], row["outcome"], row["detail"]) == ("worker", "refused", outcome.rows[0].detail)


async def test_a_worker_without_a_snapshot_is_known_by_what_it_holds(connection: asyncpg.Connection) -> None:
    await running(connection, "a", worker="upstream-1")
    await fall_silent(connection, "upstream-1", 45)
    found = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["upstream-1"]))
    assert [target.state for target in found.eligible] == ["lost: no sign of life for 45s"]
    assert (await apply(connection, found, OPS, None)).rows[0].detail == "1 failed as WORKER_CRASHED"
    again = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["upstream-1"]))
    assert reasons(again) == {"upstream-1": "no worker has that id"}


async def test_an_outcome_that_is_about_to_be_stored_is_left_to_the_sweep(connection: asyncpg.Connection) -> None:
    await dead_worker(connection)
    await connection.execute("UPDATE horsies_tasks SET finalizing_at = now() - interval '1 min' WHERE id = 'once'")
    outcome = await act(connection, VERBS["worker", "recover"], "dead")
    assert outcome.rows[0].detail.endswith("1 left to the sweep (outcome about to be stored, or locked)")
    assert (await statuses(connection))["once"] == "RUNNING"
    assert sorted(row["target_id"] for row in await audit(connection, "task")) == ["again", "waiting"]


@pytest.mark.parametrize(
    ("gap", "beaten_s", "spared"),
    [((50, 4), 0, True), ((50, 20), 0, False), (None, 3_600, False)],
    ids=["after a gap", "after the spare period", "no worker lives"],
)
async def test_one_that_was_silent_as_none_could_beat_is_not_recovered(
    connection: asyncpg.Connection, gap: tuple[float, float] | None, beaten_s: float, spared: bool
) -> None:
    """After an outage of more than 30 s, each living worker appeared lost to the first one that reconnected."""
    await dead_worker(connection)
    await connection.execute("UPDATE horsies_worker_states SET snapshot_at = now() - interval '55 s'")
    await connection.execute(
        "UPDATE horsies_tasks SET claimed_at = now() - interval '55 s', started_at = now() - interval '55 s';"
        "TRUNCATE horsies_heartbeats"
    )
    await pulse_row(connection, *([gap] if gap else []), beaten_s=beaten_s)
    found = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["dead"]))
    assert bool(found.refused) is spared
    if spared:
        assert "the database accepted no heartbeats meanwhile" in reasons(found)["dead"]


async def test_a_zombie_of_a_recovered_worker_changes_nothing(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "a", worker="dead")
    await fall_silent(connection, "dead")
    stale = type(token)("a", "dead", (await task(connection, "a"))["claimed_at"])
    await act(connection, VERBS["worker", "recover"], "dead")
    before = await task(connection, "a")
    verdicts = await finish(connection, "dead", [ended(stale, OutcomeKind.COMPLETED)])
    assert verdicts[stale].verdict is Verdict.STALE
    assert await task(connection, "a") == before
    assert len(await attempts(connection, "a")) == 1


async def test_a_role_that_may_not_give_orders_is_told_which_right_it_lacks(
    connection: asyncpg.Connection, role: str
) -> None:
    await snapshot(connection, "web-1")
    found = await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-1"]))
    await connection.execute(
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role};"
        f"REVOKE INSERT ON horsies_worker_orders FROM {role}; SET ROLE {role}"
    )
    with pytest.raises(OperationError, match="INSERT ON horsies_worker_orders"):
        await apply(connection, found, OPS, None)


async def test_a_database_of_upstream_is_told_the_way_out(connection: asyncpg.Connection) -> None:
    await connection.execute("DROP TABLE horsies_worker_orders")
    with pytest.raises(OperationError, match="no tables for orders") as caught:
        await preview(connection, VERBS["worker", "drain"], Selection.of_ids(["web-1"]))
    assert caught.value.help_text == "run `horsies db upgrade`"


async def test_nothing_eligible_changes_nothing_and_leaves_no_trace(connection: asyncpg.Connection) -> None:
    outcome = await act(connection, VERBS["worker", "drain"], "nobody")
    assert outcome.rows == ()
    assert await audit(connection) == []


async def test_orders_of_workers_that_are_gone_for_a_day_are_pruned(connection: asyncpg.Connection) -> None:
    for worker in ("lives", "gone", "new"):
        await connection.execute(
            "INSERT INTO horsies_worker_orders (worker_id, draining_since) VALUES ($1, now())", worker
        )
    await snapshot(connection, "lives", silent_s=3600)
    await snapshot(connection, "gone", silent_s=100_000)
    await connection.execute(
        "UPDATE horsies_worker_orders SET updated_at = now() - interval '2 days' WHERE worker_id <> 'new'"
    )
    await connection.execute(statement("order_prune"))
    left = await connection.fetch("SELECT worker_id FROM horsies_worker_orders ORDER BY worker_id")
    assert [worker for (worker,) in left] == ["lives", "new"]


async def test_drain_and_resume_are_undone_by_each_other(connection: asyncpg.Connection) -> None:
    await snapshot(connection, "web-1")
    drained = await act(connection, VERBS["worker", "drain"], "web-1")
    undone = await undo(connection, drained.operation_id, OPS, None)
    assert await connection.fetchval("SELECT draining_since FROM horsies_worker_orders") is None
    did, undid = await audit(connection)
    assert (undid["verb"], undid["undoes"]) == ("resume", did["id"])
    redone = await undo(connection, undone.operation_id, OPS, None)
    assert [row.applied for row in (*undone.rows, *redone.rows)] == [True, True]
    assert await connection.fetchval("SELECT draining_since FROM horsies_worker_orders") is not None


async def test_a_recovery_has_no_way_back(connection: asyncpg.Connection) -> None:
    await dead_worker(connection)
    recovered = await act(connection, VERBS["worker", "recover"], "dead")
    before = await statuses(connection)
    outcome = await undo(connection, recovered.operation_id, OPS, None)
    assert {row.detail for row in outcome.rows} == {"recover cannot be undone"}
    assert (len(outcome.rows), await statuses(connection)) == (4, before)
