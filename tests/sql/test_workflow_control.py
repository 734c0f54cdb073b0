"""Workflows paused, resumed, cancelled and opened again, with workers acting at the same moment."""

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
    rows_of_workflows,
    runs,
    states,
    task_ends,
    task_of,
    task_row,
    workflow_row,
)
from lifecycle_steps import claim_some, waits_for_a_lock
from workflow_plans import node, plan

from horsies.domain.plan import MAP_DEFINITION
from horsies.lifecycle.advancing import advance
from horsies.lifecycle.controlling import cancel, complete_node, pause, resume, retry_from_failed, skip_node
from horsies.lifecycle.create_workflow import copy_workflow
from horsies.lifecycle.reopening import CannotReopenError

DONE = '{"__task_result__":true,"ok":7,"err":null}'
WITH_CHILD = plan(node(0, sub_definition_key="child.v1"), node(1, 0))


async def in_family(conn: asyncpg.Connection) -> None:
    """w1 whose node 0 is the workflow child, whose node 0 is the workflow grandchild."""
    await planted(conn, WITH_CHILD)
    await planted_below(conn, WITH_CHILD, "w1", 0)
    await planted_below(conn, CHAIN, "child", 0, "grandchild")


async def all_states(conn: asyncpg.Connection) -> dict[str, str]:
    return {one: await states(conn, one) for one in ("w1", "child", "grandchild")}


async def test_resume_lets_the_same_task_be_claimed_once(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    queued = await task_of(connection, "w1", 0)
    await pause(connection, "w1")
    assert await resume(connection, "w1")
    assert [task.token.task_id for task in await claim_some(connection)] == [queued]
    assert await claim_some(connection) == []


async def test_resume_tells_the_queues_of_what_waits(connection: asyncpg.Connection, other: asyncpg.Connection) -> None:
    heard: list[tuple[str, str]] = []
    await planted(connection, CHAIN)
    await pause(connection, "w1")
    await other.add_listener("task_queue_default", lambda _c, _p, channel, payload: heard.append((channel, payload)))
    await resume(connection, "w1")
    await other.fetchval("SELECT 1")
    assert heard == [("task_queue_default", "resume:workflow")]


async def test_what_ended_while_paused_is_stored_and_followed_at_the_resume(connection: asyncpg.Connection) -> None:
    await planted(connection, DIAMOND)
    await runs(connection, "w1", 0)
    await pause(connection, "w1")
    await ends(connection, "w1", 0)
    assert await states(connection) == "PAUSED: COMPLETED PENDING PENDING PENDING"
    await resume(connection, "w1")
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED ENQUEUED PENDING"


async def test_pause_and_resume_reach_the_whole_family(connection: asyncpg.Connection) -> None:
    await in_family(connection)
    await pause(connection, "w1")
    assert {told.split(":")[0] for told in (await all_states(connection)).values()} == {"PAUSED"}
    assert await claim_some(connection) == []
    await resume(connection, "w1")
    assert {told.split(":")[0] for told in (await all_states(connection)).values()} == {"RUNNING"}
    assert len(await claim_some(connection)) == 1


async def test_pause_of_a_child_leaves_its_parent_running(connection: asyncpg.Connection) -> None:
    await in_family(connection)
    await pause(connection, "child")
    assert [told.split(":")[0] for told in (await all_states(connection)).values()] == ["RUNNING", "PAUSED", "PAUSED"]


async def test_cancel_reaches_queued_and_running_nodes_and_sets_completed_at(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1), node(2, 0)))
    await runs(connection, "w1", 0)
    due = "UPDATE horsies_tasks SET enqueued_at = started_at - interval '70 s' WHERE status = 'RUNNING'"
    await connection.execute(due)
    assert await cancel(connection, "w1")
    assert await states(connection) == "CANCELLED: FAILED SKIPPED SKIPPED"
    assert (await workflow_row(connection))["completed_at"] is not None
    assert [(await task_row(connection, "w1", index))["status"] for index in (0, 1)] == ["CANCELLED", "CANCELLED"]
    result = json.loads((await node_row(connection, "w1", 0))["result"])
    assert result["err"]["error_code"] == {"__builtin_task_code__": "TASK_CANCELLED"}
    (attempt,) = await connection.fetch("SELECT * FROM horsies_task_attempts")
    assert (attempt["task_id"], attempt["error_code"]) == (await task_of(connection, "w1", 0), "TASK_CANCELLED")
    assert attempt["waited_ms"] == 70_000


async def test_a_worker_is_told_that_it_has_lost_the_task(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    heard: list[str] = []
    await other.add_listener("horsies_operator", lambda *told: heard.append(told[3]))
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0, worker="w-7")
    await cancel(connection, "w1")
    await other.fetchval("SELECT 1")
    assert heard == ["w-7"]


async def test_cancel_of_a_family_ends_everything_below(connection: asyncpg.Connection) -> None:
    await in_family(connection)
    await runs(connection, "grandchild", 0)
    assert await cancel(connection, "w1")
    assert await all_states(connection) == {
        "w1": "CANCELLED: FAILED SKIPPED",
        "child": "CANCELLED: FAILED SKIPPED",
        "grandchild": "CANCELLED: FAILED SKIPPED SKIPPED",
    }
    assert (await task_row(connection, "grandchild", 0))["status"] == "CANCELLED"


async def test_a_cancelled_child_fails_the_node_of_its_living_parent_which_goes_on(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0, sub_definition_key="child.v1"), node(1, 0, allow_failed_deps=True)))
    await planted_below(connection, CHAIN, "w1", 0)
    await cancel(connection, "child")
    assert await states(connection) == "RUNNING: FAILED ENQUEUED"
    result = json.loads((await node_row(connection, "w1", 0))["result"])
    assert result["err"]["error_code"] == {"__builtin_task_code__": "SUBWORKFLOW_FAILED"}


async def test_a_cancelled_workflow_never_becomes_anything_else(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    task_id = await task_of(connection, "w1", 0)
    await cancel(connection, "w1")
    before = await rows_of_workflows(connection)
    await advance(connection, [task_id])
    assert not await cancel(connection, "w1")
    assert not await pause(connection, "w1")
    assert await rows_of_workflows(connection) == before


async def test_an_outcome_that_the_node_had_not_heard_of_survives_the_cancel(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1), node(2)))
    await task_ends(connection, "w1", 0)
    await task_ends(connection, "w1", 1, "FAILED")
    await cancel(connection, "w1")
    assert await states(connection) == "CANCELLED: COMPLETED FAILED SKIPPED"
    assert json.loads((await node_row(connection, "w1", 1))["result"])["err"]["message"] == "n1 broke"


async def test_a_worker_that_finishes_while_the_cancel_waits_for_the_row_keeps_its_outcome(
    connection: asyncpg.Connection, database: str
) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    worker, canceller = [await asyncpg.connect(database) for _ in range(2)]
    async with worker.transaction():
        task_id = await task_ends(worker, "w1", 0)
        cancelling = await waits_for_a_lock(connection, canceller, cancel(canceller, "w1"))
        assert not cancelling.done()
    assert await cancelling
    await advance(worker, [task_id])
    assert await states(connection) == "CANCELLED: COMPLETED SKIPPED SKIPPED"
    assert (await task_row(connection, "w1", 0))["status"] == "COMPLETED"
    await asyncio.gather(worker.close(), canceller.close())


async def test_two_operators_at_once_pause_and_cancel_one_after_the_other(
    connection: asyncpg.Connection, database: str
) -> None:
    await planted(connection, CHAIN)
    one, other = [await asyncpg.connect(database) for _ in range(2)]
    async with one.transaction():
        await pause(one, "w1")
        cancelling = await waits_for_a_lock(connection, other, cancel(other, "w1"))
        assert not cancelling.done()
    assert await cancelling
    assert await states(connection) == "CANCELLED: SKIPPED SKIPPED SKIPPED"
    await asyncio.gather(one.close(), other.close())


async def test_retry_from_failed_runs_the_failed_node_anew_and_lets_the_skipped_ones_wait(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, DIAMOND)
    await ends(connection, "w1", 0, 1)
    failed = await task_of(connection, "w1", 2)
    await ends(connection, "w1", 2, status="FAILED")
    assert await states(connection) == "FAILED: COMPLETED COMPLETED FAILED SKIPPED"
    await retry_from_failed(connection, "w1")
    assert await states(connection) == "RUNNING: COMPLETED COMPLETED ENQUEUED PENDING"
    row = await workflow_row(connection)
    assert (row["error"], row["result"], row["completed_at"]) == (None, None, None)
    assert await task_of(connection, "w1", 2) != failed
    await ends(connection, "w1", 2, 3)
    assert await states(connection) == "COMPLETED: COMPLETED COMPLETED COMPLETED COMPLETED"


async def test_retry_from_failed_goes_into_the_child_and_opens_every_parent(connection: asyncpg.Connection) -> None:
    await in_family(connection)
    await ends(connection, "grandchild", 0, status="FAILED")
    assert {told.split(":")[0] for told in (await all_states(connection)).values()} == {"FAILED"}
    await retry_from_failed(connection, "w1")
    assert await all_states(connection) == {
        "w1": "RUNNING: RUNNING PENDING",
        "child": "RUNNING: RUNNING PENDING",
        "grandchild": "RUNNING: ENQUEUED PENDING PENDING",
    }
    await ends(connection, "grandchild", 0, 1, 2)
    await ends(connection, "child", 1)
    await ends(connection, "w1", 1)
    assert {told.split(":")[0] for told in (await all_states(connection)).values()} == {"COMPLETED"}


async def test_a_child_that_was_cancelled_is_built_anew(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, CHAIN, "w1", 0)
    await cancel(connection, "child")
    assert await states(connection) == "FAILED: FAILED SKIPPED"
    await retry_from_failed(connection, "w1")
    assert await states(connection) == "RUNNING: READY PENDING"
    assert (await node_row(connection, "w1", 0))["sub_workflow_id"] is None


async def test_retry_resumes_a_workflow_that_an_error_has_paused(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1, 0), on_error="pause"))
    await ends(connection, "w1", 0, status="FAILED")
    assert await states(connection) == "PAUSED: FAILED PENDING"
    await retry_from_failed(connection, "w1")
    await ends(connection, "w1", 0, 1)
    assert await states(connection) == "COMPLETED: COMPLETED COMPLETED"


async def test_a_retry_drops_the_deadlines_that_have_passed_and_keeps_the_others(
    connection: asyncpg.Connection,
) -> None:
    """With its old deadline a node that expired would expire again at once."""
    past, future = (f'{{"retry_policy":null,"good_until":"{year}-01-01T00:00:00+00:00"}}' for year in (2001, 2999))
    await planted(connection, plan(node(0, task_options=past), node(1, 0, task_options=past), node(2, 0)))
    await connection.execute("UPDATE horsies_workflow_tasks SET task_options = $1 WHERE task_index = 2", future)
    await ends(connection, "w1", 0, status="EXPIRED")
    assert await states(connection) == "FAILED: FAILED SKIPPED SKIPPED"
    await retry_from_failed(connection, "w1")
    assert (await task_row(connection, "w1", 0))["good_until"] is None
    await ends(connection, "w1", 0)
    deadlines = [(await task_row(connection, "w1", index))["good_until"] for index in (1, 2)]
    assert [moment and moment.year for moment in deadlines] == [None, 2999]


async def test_a_map_that_is_built_anew_has_no_deadline_that_has_passed(connection: asyncpg.Connection) -> None:
    options = '{"retry_policy":null,"good_until":"2001-01-01T00:00:00+00:00"}'
    kwargs = json.dumps({MAP_DEFINITION: {"task": "demo.add", "task_options": options, "items": [1]}, "b": 2})
    await planted(connection, plan(node(0, kwargs_json=kwargs, sub_definition_key=MAP_DEFINITION)))
    await planted_below(connection, CHAIN, "w1", 0)
    await cancel(connection, "child")
    async with connection.transaction():
        copy = await copy_workflow(connection, "w1")
    await retry_from_failed(connection, "w1")
    for workflow_id in (copy, "w1"):
        stored = json.loads((await node_row(connection, workflow_id, 0))["task_kwargs"])
        assert json.loads(stored[MAP_DEFINITION]["task_options"]) == {"retry_policy": None, "good_until": None}
        assert (stored["b"], stored[MAP_DEFINITION]["items"]) == (2, [1])


async def test_a_retry_that_finds_nothing_names_the_child_that_is_paused(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, plan(node(0), on_error="pause"), "w1", 0)
    await ends(connection, "child", 0, status="FAILED")
    with pytest.raises(CannotReopenError, match="its child demo child is PAUSED: retry or resume the child"):
        await retry_from_failed(connection, "w1")


async def test_a_child_cannot_go_on_where_its_parent_has_completed_without_it(connection: asyncpg.Connection) -> None:
    policy = '{"cases":[{"required_indices":[1]}]}'
    await planted(connection, plan(node(0, sub_definition_key="c"), node(1), success_policy=policy))
    await planted_below(connection, CHAIN, "w1", 0)
    await ends(connection, "w1", 1)
    await ends(connection, "child", 0, status="FAILED")
    assert (await workflow_row(connection))["status"] == "COMPLETED"
    with pytest.raises(CannotReopenError, match="demo is COMPLETED"):
        await retry_from_failed(connection, "child")


async def test_a_skipped_node_takes_its_task_with_it_and_what_follows_is_judged(connection: asyncpg.Connection) -> None:
    await planted(connection, plan(node(0), node(1), node(2, 0, 1, join="any")))
    await runs(connection, "w1", 0)
    assert await skip_node(connection, "w1", 0, "skipped by hand")
    assert await states(connection) == "RUNNING: SKIPPED ENQUEUED PENDING"
    assert (await task_row(connection, "w1", 0))["status"] == "CANCELLED"
    assert not await skip_node(connection, "w1", 0, "again")
    await ends(connection, "w1", 1, 2)
    assert await states(connection) == "COMPLETED: SKIPPED COMPLETED COMPLETED"


async def test_skipping_a_node_that_is_a_workflow_cancels_that(connection: asyncpg.Connection) -> None:
    await planted(connection, WITH_CHILD)
    await planted_below(connection, CHAIN, "w1", 0)
    assert await skip_node(connection, "w1", 0, "skipped by hand")
    assert await states(connection, "child") == "CANCELLED: SKIPPED SKIPPED SKIPPED"
    assert await states(connection) == "COMPLETED: SKIPPED SKIPPED"


async def test_a_node_completed_by_hand_opens_the_failed_workflow_and_hands_its_value_on(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0, args_from={"a": 0})))
    await ends(connection, "w1", 0, status="FAILED")
    assert await states(connection) == "FAILED: FAILED SKIPPED"
    assert await complete_node(connection, "w1", 0, DONE, "by hand")
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED"
    assert '\\"ok\\":7' in (await task_row(connection, "w1", 1))["kwargs"]
    await ends(connection, "w1", 1)
    row = await workflow_row(connection)
    assert (row["status"], row["error"]) == ("COMPLETED", None)
    assert not await complete_node(connection, "w1", 0, DONE, "again")


async def test_a_node_completed_by_hand_stops_what_it_runs(connection: asyncpg.Connection) -> None:
    await planted(connection, CHAIN)
    await runs(connection, "w1", 0)
    assert await complete_node(connection, "w1", 0, DONE, "by hand")
    assert await states(connection) == "RUNNING: COMPLETED ENQUEUED PENDING"
    assert (await task_row(connection, "w1", 0))["status"] == "CANCELLED"


async def test_a_node_that_a_person_skipped_stays_skipped_when_its_ancestor_is_retried(
    connection: asyncpg.Connection,
) -> None:
    await planted(connection, plan(node(0), node(1, 0), node(2, 0)))
    await skip_node(connection, "w1", 2, "not needed")
    await ends(connection, "w1", 0, status="FAILED")
    await retry_from_failed(connection, "w1")
    assert await states(connection) == "RUNNING: ENQUEUED PENDING SKIPPED"
