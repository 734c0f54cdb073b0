"""Verbs on workflows while a real worker runs their nodes, or has just been killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fault_scene import kill_worker
from faults import FaultAction, FaultPoint, fault
from test_worker import start, table
from worker_flows import Flows, flows

from horsies.operations.actor import Actor
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verb import WorkflowVerb
from horsies.operations.verbs import VERBS

if TYPE_CHECKING:
    from horsies.operations.preview import Outcome

__all__ = ["flows", "start", "table"]

OPS = Actor("ops", "bastion")
NODE_ENDS = FaultPoint("horsies_workflow_tasks", "UPDATE", "NEW.task_index = 0 AND NEW.status = 'COMPLETED'")


async def act(flows: Flows, verb: WorkflowVerb, flow: str) -> Outcome:
    looked = await preview(flows.connection, verb, Selection.of_ids([flow]))
    outcome = await apply(flows.connection, looked, OPS, None)
    assert len(outcome.applied) == 1, (looked.refused, outcome.refused)
    return outcome


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


async def test_a_worker_killed_between_its_two_transactions_is_made_good_by_reconciling(flows: Flows) -> None:
    async with fault(flows.connection, NODE_ENDS, FaultAction.BLOCK) as blocked:
        worker = await flows.worker()
        flow = await flows.create_workflow(flows.node(0), flows.node(1, 0))
        await blocked.reached()
        kill_worker(worker)
        await blocked.kill()
        await blocked.release()
    assert (await flows.nodes(flow))[1] == "PENDING"
    looked = await preview(flows.connection, VERBS["workflow", "reconcile"], Selection.of_ids([flow]))
    assert [line.split(": ", 1)[1].split(" ", 2)[2] for line in looked.consequences] == [
        "→ COMPLETED: its task is COMPLETED",
        "PENDING → ENQUEUED: its join (all) is met",
    ]
    outcome = await act(flows, VERBS["workflow", "reconcile"], flow)
    assert outcome.applied[0].detail == "2 repairs"
    await flows.worker()
    assert await flows.values(flow) == {"n1": 1}
    await flows.once_each("n0", "n1")


async def test_what_failed_runs_again_and_the_workflow_comes_to_its_end(flows: Flows) -> None:
    await flows.worker()
    flow = await flows.create_workflow(flows.node(0), flows.node(1, 0, task="flaky"), flows.node(2, 1))
    assert (await flows.over(flow))["status"] == "FAILED"
    assert await flows.nodes(flow) == ["COMPLETED", "FAILED", "SKIPPED"]
    await act(flows, VERBS["workflow", "retry"], flow)
    assert await flows.values(flow) == {"n2": 1}
    assert [len(flows.runs(label)) for label in ("n0", "n1", "n2")] == [1, 2, 1]


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
