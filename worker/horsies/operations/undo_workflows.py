"""Undoes a pause or a resume of workflows; for all other actions it gives the reason why they cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.states import WorkflowStatus
from horsies.lifecycle.workflow_rows import read_flows
from horsies.operations.orders import Act
from horsies.operations.preview import RowOutcome, Target
from horsies.operations.workflow_acts import perform, refuse
from horsies.operations.workflow_eligibility import WorkflowFacts, WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    import asyncpg

    from horsies.operations.actor import Actor

# For each verb: its inverse, and the status in which it left the workflow.
_WAYS_BACK: Mapping[str, tuple[WorkflowVerb, WorkflowStatus]] = {
    WorkflowVerb.PAUSE: (WorkflowVerb.RESUME, WorkflowStatus.PAUSED),
    WorkflowVerb.RESUME: (WorkflowVerb.PAUSE, WorkflowStatus.RUNNING),
}
_NO_WAY_BACK: Mapping[str, str] = {
    WorkflowVerb.CANCEL: "what was cancelled has ended: rerun starts it anew",
    WorkflowVerb.RERUN: "the copy is a workflow of its own: cancel it instead",
    WorkflowVerb.RETRY_FROM_FAILED: "what runs again cannot be made to have failed: cancel it instead",
    WorkflowVerb.RECONCILE: "what was put right was out of step before",
    WorkflowVerb.SKIP: "what follows was judged without it; complete gives it a value",
    WorkflowVerb.COMPLETE: "what follows may have its value already",
}


def why_no_way_back(verb: str, status: str | None) -> str | None:
    """None if `undo` may be tried: `status` is that of the workflow now, None if it was deleted."""
    if verb not in _WAYS_BACK:
        return _NO_WAY_BACK.get(verb, f"there is no way back from {verb}")
    if status is None:
        return "it is gone: its row was deleted"
    return None if status == _WAYS_BACK[WorkflowVerb(verb)][1] else f"it is {status} now"


async def undo_workflows(
    conn: asyncpg.Connection, done: UUID, undoing: UUID, actor: Actor, reason: str | None
) -> tuple[RowOutcome, ...]:
    """The inverse of each row of the operation `done`, in a transaction of its own, with audit rows under `undoing`."""
    outcomes = []
    for row in await conn.fetch(statement("horsies.operations.undo_orders", "order_done"), done, ["workflow", "node"]):
        target = Target(row["target_kind"], row["target_id"], row["target_id"], row["verb"])
        act = Act(undoing, "undo", actor, reason, {target.id: row["id"]})
        async with conn.transaction(isolation="read_committed"):
            flow = (await read_flows(conn, [target.id])).get(target.id)
            no_way = why_no_way_back(row["verb"], None if flow is None else flow.status) or row["since_then"]
            if no_way is not None or flow is None:
                outcomes.append(await refuse(conn, act, target, no_way or "it is gone: its row was deleted"))
                continue
            seen = Target("workflow", flow.id, flow.name, flow.status, WorkflowFacts(flow, {}, {}))
            outcomes.append(await perform(conn, act, _WAYS_BACK[WorkflowVerb(row["verb"])][0], seen))
    return tuple(outcomes)
