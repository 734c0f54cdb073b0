"""Sweeps or operators end or requeue tasks of workflows: their workflows are advanced at once."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest
from control_steps import (
    CHAIN,
    DIAMOND,
    ends,
    node_row,
    planted,
    planted_below,
    runs,
    states,
    task_ends,
    task_of,
    task_row,
)
from lifecycle_steps import waits_for_a_lock
from operation_steps import OPS, audit, undo
from workflow_plans import node, plan

from horsies.config.recovery import RecoveryConfig
from horsies.lifecycle.controlling import cancel, pause, resume, retry_from_failed
from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import Recovered, recover
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import VERBS
from horsies.run.events import Events
from horsies.run.worker.sweeper import Recovery

GOES_ON_AFTER_FAILURE = plan(node(0), node(1, 0, allow_failed_deps=True))


async def act(conn: asyncpg.Connection, verb: TaskVerb, *ids: str) -> list[str]:
    """Apply the verb to these tasks; returns the reasons of refusals, in the preview or later."""
    looked = await preview(conn, verb, Selection.of_ids(ids))
    outcome = await apply(conn, looked, OPS, "why")
    return [refusal.reason for refusal in looked.refused] + [row.detail for row in outcome.refused]


async def code_of(conn: asyncpg.Connection, index: int) -> str:
    error = json.loads((await node_row(conn, "w1", index))["result"])["err"]["error_code"]
    return str(error["__builtin_task_code__"] if isinstance(error, dict) else error)


async def test_a_stale_run_of_a_node_that_the_sweep_fails_advances_its_workflow(connection: asyncpg.Connection) -> None:
    await planted(connection, GOES_ON_AFTER_FAILURE)
    await runs(connection, "w1", 0)
    await connection.execute(
        "UPDATE horsies_tasks SET started_at = now() - interval '1 h', claimed_at = now() - interval '1 h'"
    )
    assert await recover(connection, RecoveryConfig()) == Recovered(failed=1)
    assert await states(connection) == "RUNNING: FAILED ENQUEUED"
    assert await code_of(connection, 0) == "WORKER_CRASHED"


async def test_a_node_whose_task_has_expired_in_the_queue_advances_its_workflow(connection: asyncpg.Connection) -> None:
    await planted(connection, GOES_ON_AFTER_FAILURE)
    await connection.execute("UPDATE horsies_tasks SET good_until = now() - interval '1 s'")
    assert await recover(connection, RecoveryConfig()) == Recovered(expired=1)
    assert await states(connection) == "RUNNING: FAILED ENQUEUED"
    assert await code_of(connection, 0) == "TASK_EXPIRED"


@pytest.mark.parametrize(
    ("verb", "code"), [(VERBS["task", "fail"], "OPERATOR_FAILED"), (VERBS["task", "cancel"], "TASK_CANCELLED")]
)
async def test_a_task_that_an_operator_ends_advances_its_workflow(
    connection: asyncpg.Connection, verb: TaskVerb, code: str
) -> None:
    await planted(connection, GOES_ON_AFTER_FAILURE)
    await runs(connection, "w1", 0)
    assert await act(connection, verb, await task_of(connection, "w1", 0)) == []
    assert await states(connection) == "RUNNING: FAILED ENQUEUED"
    assert await code_of(connection, 0) == code


async def test_what_a_gone_worker_held_fails_and_its_workflow_goes_on(connection: asyncpg.Connection) -> None:
    await planted(connection, GOES_ON_AFTER_FAILURE)
    await runs(connection, "w1", 0, worker="w-gone")
    await connection.execute(
        "UPDATE horsies_tasks SET started_at = now() - interval '1 h', claimed_at = now() - interval '1 h'"
    )
    looked = await preview(connection, VERBS["worker", "recover"], Selection.of_ids(["w-gone"]))
    outcome = await apply(connection, looked, OPS, None)
    assert len(outcome.applied) == 1
    assert await states(connection) == "RUNNING: FAILED ENQUEUED"


async def test_a_requeued_task_opens_its_node_and_what_was_skipped_after_it(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0, 1)
    await ends(connection, "w1", 2, status="FAILED")
    task_id = await task_of(connection, "w1", 2)
    looked = await preview(connection, VERBS["task", "requeue"], Selection.of_ids([task_id]))
    assert any("waits for it again" in line for line in looked.consequences)
    assert await act(connection, VERBS["task", "requeue"], task_id) == []
    assert await states(connection) == "RUNNING: COMPLETED COMPLETED ENQUEUED PENDING"
    assert await task_of(connection, "w1", 2) == task_id
    await ends(connection, "w1", 2, 3)
    assert await states(connection) == "COMPLETED: COMPLETED COMPLETED COMPLETED COMPLETED"


async def test_a_former_task_of_a_node_is_requeued_with_a_warning_and_changes_nothing(
    connection: asyncpg.Connection,
) -> None:
    """After a retry its node has another one."""
    await planted(connection, plan(node(0), node(1, 0)))
    await ends(connection, "w1", 0, status="FAILED")
    former = await task_of(connection, "w1", 0)
    await retry_from_failed(connection, "w1")
    looked = await preview(connection, VERBS["task", "requeue"], Selection.of_ids([former]))
    assert "1 of workflows that have continued without them: no node waits for their outcome" in looked.consequences
    before = await states(connection)
    assert (await apply(connection, looked, OPS, None)).applied
    assert await states(connection) == before


async def test_a_requeued_task_of_a_child_opens_every_parent(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0, sub_definition_key="c"), node(1, 0)))
    await planted_below(connection, CHAIN, "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    assert await states(connection) == "FAILED: FAILED SKIPPED"
    assert await act(connection, VERBS["task", "requeue"], await task_of(connection, "child", 0)) == []
    assert await states(connection) == "RUNNING: RUNNING PENDING"
    assert await states(connection, "child") == "RUNNING: ENQUEUED PENDING PENDING"


async def test_a_running_task_that_is_requeued_keeps_its_node(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    assert await act(connection, VERBS["task", "requeue"], await task_of(connection, "w1", 0)) == []
    assert await states(connection) == "RUNNING: RUNNING PENDING PENDING"


async def test_a_node_that_has_completed_keeps_its_outcome_when_its_task_runs_again(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0)
    before = await node_row(connection, "w1", 0)
    assert await act(connection, VERBS["task", "requeue"], await task_of(connection, "w1", 0)) == []
    await ends(connection, "w1", 0, status="FAILED")
    assert await node_row(connection, "w1", 0) == before
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED PENDING"


async def test_a_task_of_a_paused_workflow_that_is_requeued_waits_for_the_resume(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    assert await act(connection, VERBS["task", "requeue"], await task_of(connection, "w1", 0)) == []
    assert await states(connection) == "PAUSED: ENQUEUED PENDING"
    await resume(connection, "w1")
    await ends(connection, "w1", 0, 1)
    assert await states(connection) == "COMPLETED: COMPLETED COMPLETED"


async def test_a_task_whose_workflow_is_cancelled_meanwhile_is_not_requeued(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await planted(connection, plan(node(0), node(1)))
    await ends(connection, "w1", 0, status="FAILED")
    task_id = await task_of(connection, "w1", 0)
    looked = await preview(connection, VERBS["task", "requeue"], Selection.of_ids([task_id]))
    async with connection.transaction():
        await cancel(connection, "w1")
        requeueing = await waits_for_a_lock(connection, other, apply(other, looked, OPS, None))
        assert not requeueing.done()
    outcome = await requeueing
    assert [row.detail for row in outcome.refused] == ["its workflow demo is CANCELLED"]
    assert (await task_row(connection, "w1", 0))["status"] == "FAILED"
    assert [row["outcome"] for row in await audit(connection)] == ["refused"]


async def test_undoing_a_requeue_fails_the_node_again(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0, status="FAILED")
    looked = await preview(connection, VERBS["task", "requeue"], Selection.of_ids([await task_of(connection, "w1", 0)]))
    outcome = await apply(connection, looked, OPS, None)
    assert await states(connection) == "RUNNING: ENQUEUED PENDING PENDING"
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert [row.applied for row in undone.rows] == [True]
    assert await states(connection) == "FAILED: FAILED SKIPPED SKIPPED"


async def test_a_task_ended_while_its_workflow_is_paused_is_not_brought_back_by_undo(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, CHAIN)
    await pause(connection, "w1")
    looked = await preview(connection, VERBS["task", "cancel"], Selection.of_ids([await task_of(connection, "w1", 0)]))
    outcome = await apply(connection, looked, OPS, None)
    assert await states(connection) == "PAUSED: FAILED PENDING PENDING"
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert [row.detail for row in undone.rows] == ["its workflow has gone on without it"]


async def test_operators_and_workers_who_meet_at_a_workflow_never_deadlock(
    connection: asyncpg.Connection, database: str
) -> None:
    await planted(connection, plan(*(node(index) for index in range(40)), node(40, *range(40), allow_failed_deps=True)))
    ids = [await task_of(connection, "w1", index) for index in range(40)]
    crowd = [await asyncpg.connect(database) for _ in range(4)]

    async def fail(conn: asyncpg.Connection, some: list[str]) -> None:
        for task_id in some:
            await act(conn, VERBS["task", "cancel"], task_id)
            await act(conn, VERBS["task", "requeue"], task_id)
            await act(conn, VERBS["task", "fail"], task_id)

    async def turn(conn: asyncpg.Connection) -> None:
        for _ in range(15):
            await pause(conn, "w1")
            await resume(conn, "w1")

    await asyncio.gather(*(fail(crowd[n], ids[n::3][:5]) for n in range(3)), turn(crowd[3]))
    await asyncio.gather(*(conn.close() for conn in crowd))
    # A verb steps over a workflow that another session has locked at that moment; the next sweep advances its nodes.
    await reconcile_all(connection, 0)
    ended = await connection.fetchval(
        "SELECT count(*) FROM horsies_workflow_tasks node JOIN horsies_tasks task ON task.id = node.task_id"
        " WHERE node.status = 'FAILED' AND task.status = 'FAILED'"
    )
    assert ended == 15


async def test_the_sweep_of_a_worker_reconciles_after_its_grace_and_reports_what_it_did(
    connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for workflow_id, seconds in (("w1", 20), ("w2", 5), ("w3", 20)):
        await planted(connection, CHAIN, workflow_id)
        await task_ends(connection, workflow_id, 0, seconds_ago=seconds)
    await connection.execute("UPDATE horsies_workflow_tasks SET join_type = 'most' WHERE workflow_id = 'w3'")
    job = Recovery(RecoveryConfig(), Events())
    with caplog.at_level("INFO"):
        report = await job.do(connection)
    assert (report["repairs"], report["workflows"]) == (2, 1)
    assert [one["id"] for one in report["refused_workflows"]] == ["w3"]
    assert [await states(connection, one) for one in ("w1", "w2")] == [
        "RUNNING: COMPLETED ENQUEUED PENDING",
        "RUNNING: ENQUEUED PENDING PENDING",
    ]
    (told,) = [record for record in caplog.records if vars(record).get("event") == "swept"]
    assert told.levelname == "INFO"
    assert (vars(told)["fields"]["repairs"], vars(told)["fields"]["workflows"]) == (2, 1)
    assert "skipped a workflow" in caplog.text


async def test_a_damaged_parent_does_not_keep_other_workflows_from_their_requeued_tasks(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0, sub_definition_key="child.v1"), name="parent"), "p")
    await planted_below(connection, plan(node(0)), "p", 0)
    await ends(connection, "child", 0, status="FAILED")
    await planted(connection, CHAIN)
    await ends(connection, "w1", 0, status="FAILED")
    await connection.execute("UPDATE horsies_workflows SET parent_task_index = 9 WHERE id = 'child'")
    tasks = [await task_of(connection, "child", 0), await task_of(connection, "w1", 0)]
    assert await act(connection, VERBS["task", "requeue"], *tasks) == []
    assert await states(connection, "child") == "FAILED: FAILED"
    assert await states(connection) == "RUNNING: ENQUEUED PENDING PENDING"
