"""Workflows on real workers, which are killed in the middle of their writes, or meet an operator."""

from __future__ import annotations

import asyncio
import json

import pytest
from fault_scene import POLICY, chaos
from faults import FaultAction, FaultMoment, FaultPoint, fault
from worker_flows import Flows

from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verb import WorkflowVerb
from horsies.operations.verbs import VERBS

NODES, WORKFLOWS, TASKS = "horsies_workflow_tasks", "horsies_workflows", "horsies_tasks"

# Each write after the end of the first node of a diamond, and those after its last.
POINTS = {
    "finish": FaultPoint.status("RUNNING", "COMPLETED"),
    "node ends": FaultPoint(NODES, "UPDATE", "NEW.task_index = 0 AND NEW.status = 'COMPLETED'"),
    "node ready": FaultPoint(NODES, "UPDATE", "OLD.status = 'PENDING' AND NEW.status = 'READY'"),
    "node linked": FaultPoint(NODES, "UPDATE", "NEW.task_index = 1 AND NEW.status = 'ENQUEUED'"),
    "task enqueued": FaultPoint(TASKS, "INSERT", "NEW.kwargs LIKE '%n1%'"),
    "advance commits": FaultPoint(
        NODES, "UPDATE", "NEW.task_index = 1 AND NEW.status = 'ENQUEUED'", FaultMoment.COMMIT
    ),
    "workflow ends": FaultPoint(WORKFLOWS, "UPDATE", "NEW.status = 'COMPLETED'"),
}


async def diamond(flows: Flows) -> str:
    return await flows.create_workflow(flows.node(0), flows.node(1, 0), flows.node(2, 0), flows.node(3, 1, 2))


async def whole(flows: Flows, workflow_id: str) -> None:
    """The diamond has ended, and each of its nodes has run once."""
    assert await flows.values(workflow_id) == {"n3": 1}
    assert await flows.nodes(workflow_id) == ["COMPLETED"] * 4
    await flows.once_each("n0", "n1", "n2", "n3")


async def test_a_node_runs_while_its_task_does_and_through_its_retries_and_ends_with_one_that_expires(
    flows: Flows,
) -> None:
    await flows.worker()
    options = json.dumps({"retry_policy": POLICY | {"max_retries": 2}, "good_until": None})
    flow = await flows.create_workflow(flows.node(0, task="hold"), flows.node(1, 0, task="flaky", task_options=options))
    await flows.begun("n0")
    await flows.until_nodes(flow, "RUNNING", "PENDING")
    await flows.let_go()
    await flows.until("SELECT retry_count = 1 FROM horsies_tasks WHERE task_name = 'flaky' AND status = 'PENDING'")
    await flows.until_nodes(flow, "COMPLETED", "RUNNING")
    assert (await flows.over(flow))["status"] == "COMPLETED"
    assert len(flows.runs("n1")) == 2
    # One whose task expires in the queue has ended, too.
    options = '{"retry_policy":null,"good_until":"2020-01-01T00:00:00+00:00"}'
    flow = await flows.create_workflow(flows.node(0, task_options=options), flows.node(1, 0))
    assert (await flows.over(flow))["status"] == "FAILED"
    assert await flows.nodes(flow) == ["FAILED", "SKIPPED"]


@pytest.mark.parametrize(
    "point",
    [
        "finish",
        "node ends",
        "advance commits",
        *map(chaos, ("node ready", "node linked", "task enqueued", "workflow ends")),
    ],
)
async def test_a_session_lost_in_the_middle_costs_nothing(flows: Flows, point: str) -> None:
    async with fault(flows.connection, POINTS[point], FaultAction.BLOCK) as blocked:
        await flows.worker()
        flow = await diamond(flows)
        await blocked.reached()
        await blocked.kill()
        await blocked.release()
    await whole(flows, flow)


async def test_a_worker_that_is_told_to_stop_advances_first(flows: Flows) -> None:
    worker = await flows.worker()
    flow = await flows.create_workflow(flows.node(0, task="hold"), flows.node(1, 0))
    await flows.begun("n0")
    worker.process.terminate()
    await asyncio.to_thread(worker.wait_for, "draining")
    await flows.let_go()
    assert await asyncio.to_thread(worker.end) == 0
    assert await flows.nodes(flow) == ["COMPLETED", "ENQUEUED"]


async def test_workers_that_meet_in_a_workflow_do_each_thing_once(flows: Flows) -> None:
    """Twenty branches end at about the same time on two workers; the node that joins them is enqueued once."""
    for _ in range(2):
        await flows.worker()
    branches = range(1, 21)
    nodes = [flows.node(0), *(flows.node(index, 0) for index in branches), flows.node(21, *branches)]
    flow = await flows.create_workflow(*nodes)
    assert await flows.values(flow) == {"n21": 1}
    await flows.once_each(*(f"n{index}" for index in range(22)))


async def test_a_workflow_that_the_database_will_not_have_changed_holds_up_no_other(flows: Flows) -> None:
    worker = await flows.worker()
    refused = await flows.create_workflow(flows.node(0, task="hold"), flows.node(1, 0))
    point = FaultPoint(NODES, "UPDATE", f"NEW.workflow_id = '{refused}' AND NEW.status = 'COMPLETED'")
    async with fault(flows.connection, point, FaultAction.FAIL, times=1_000, sqlstate="23514"):
        await flows.begun("n0")
        other = await flows.create_workflow(flows.node(5), flows.node(6, 5))
        await flows.let_go()
        assert (await flows.over(other))["status"] == "COMPLETED"
        await asyncio.to_thread(worker.wait_for, "workflow not advanced")
    assert (await flows.over(refused))["status"] == "COMPLETED"
    await flows.once_each("n0", "n1", "n5", "n6")


async def act(flows: Flows, verb: WorkflowVerb, flow: str) -> None:
    looked = await preview(flows.connection, verb, Selection.of_ids([flow]))
    outcome = await apply(flows.connection, looked, Actor("ops", "bastion"), None)
    assert len(outcome.applied) == 1, (looked.refused, outcome.refused)


async def test_a_cancelled_workflow_stops_the_code_of_its_running_node_and_the_worker_is_free_again(
    flows: Flows,
) -> None:
    worker = await flows.worker()
    flow = await flows.create_workflow(flows.node(0, task="hold"), flows.node(1, 0))
    await flows.begun("n0")
    await flows.until_nodes(flow, "RUNNING", "PENDING")
    await act(flows, VERBS["workflow", "cancel"], flow)
    assert (await flows.over(flow))["status"] == "CANCELLED"
    # The pipe that the node waits for is never written: only a worker that stops the node gets its place back.
    for number in range(len(worker.children()) + 1):
        await flows.table.done(await flows.table.send("work", str(flows.ledger), f"after-{number}"))
    assert await flows.nodes(flow) == ["FAILED", "SKIPPED"]
    await flows.once_each("n0")


async def test_a_paused_workflow_starts_nothing_and_goes_on_at_once_when_resumed(flows: Flows) -> None:
    await flows.worker()
    flow = await flows.create_workflow(flows.node(0, task="hold"), flows.node(1, 0))
    await flows.begun("n0")
    await act(flows, VERBS["workflow", "pause"], flow)
    await flows.let_go()
    await flows.until_nodes(flow, "COMPLETED", "PENDING")
    await flows.table.done(await flows.table.send("work", str(flows.ledger), "other"))
    assert flows.runs("n1") == []
    await act(flows, VERBS["workflow", "resume"], flow)
    assert (await flows.over(flow))["status"] == "COMPLETED"
    await flows.once_each("n0", "n1")
