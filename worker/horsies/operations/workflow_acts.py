"""One action on one workflow or node, under the lock of its family, with its audit row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from horsies.domain import tags
from horsies.domain.codec import to_json
from horsies.domain.states import WorkflowStatus
from horsies.lifecycle import controlling
from horsies.lifecycle.advancing import FamilyLockedError, lock_families
from horsies.lifecycle.copy_workflow import copy_workflow
from horsies.lifecycle.operator_actions import OperatorAction
from horsies.lifecycle.reconciling import DamagedWorkflowError, reconcile
from horsies.lifecycle.reopening import CannotReopenError
from horsies.lifecycle.workflow_rows import read_flows, read_nodes
from horsies.operations.formatting import counted
from horsies.operations.preview import RowOutcome
from horsies.operations.workflow_eligibility import WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.lifecycle.workflow_rows import NodeRow, WorkflowRow
    from horsies.operations.orders import Act
    from horsies.operations.preview import Target
    from horsies.operations.workflow_eligibility import WorkflowFacts

_MOST_TOLD = 1000


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of an action. `told` goes into the audit's state after."""

    detail: str
    told: Mapping[str, Any] = field(default_factory=dict)
    new_id: str | None = None


class _RefusedError(Exception):
    """The rows are not as they were seen."""


async def perform(
    conn: asyncpg.Connection, act: Act, verb: WorkflowVerb, target: Target, value: str | None = None
) -> RowOutcome:
    """In the caller's transaction. A target that is not as it was seen is refused, and the audit records that."""
    seen: WorkflowFacts = target.seen
    try:
        await lock_families(conn, [seen.flow.id])
    except FamilyLockedError as error:
        return await refuse(conn, act, target, str(error))
    flow = (await read_flows(conn, [seen.flow.id])).get(seen.flow.id)
    before = None if flow is None else await _state(conn, flow)
    try:
        async with conn.transaction():  # a savepoint: the audit row of a refusal stays
            done = await _do(conn, act, verb, seen, flow, value)
    except (_RefusedError, CannotReopenError) as refusal:
        return await refuse(conn, act, target, str(refusal), before)
    except DamagedWorkflowError as error:
        return await refuse(conn, act, target, error.message, before)
    now = (await read_flows(conn, [seen.flow.id]))[seen.flow.id]
    await _trace(conn, act, target, "applied", None, before, {**await _state(conn, now), **done.told})
    return RowOutcome(target, applied=True, detail=done.detail, new_id=done.new_id)


async def _do(
    conn: asyncpg.Connection,
    act: Act,
    verb: WorkflowVerb,
    seen: WorkflowFacts,
    flow: WorkflowRow | None,
    value: str | None,
) -> _Done:
    if flow is None:
        raise _RefusedError("it is gone: its row was deleted")
    if flow.status != seen.flow.status:
        raise _RefusedError(f"it is {flow.status} now")
    if seen.node is not None:
        done_by_hand = await _on_node(conn, act, verb, seen.node, value)
        if flow.status != WorkflowStatus.PAUSED:
            return done_by_hand
        return replace(done_by_hand, detail=f"{done_by_hand.detail}; its workflow stays PAUSED until it is resumed")
    match verb:
        case WorkflowVerb.RECONCILE:
            return await _reconcile(conn, flow)
        case WorkflowVerb.RETRY_FROM_FAILED:
            return await _retry(conn, flow)
        case WorkflowVerb.RERUN:
            return await _rerun(conn, seen)
        case WorkflowVerb.PAUSE:
            done = await controlling.pause(conn, flow.id)
        case WorkflowVerb.RESUME:
            done = await controlling.resume(conn, flow.id)
        case _:
            done = await controlling.cancel(conn, flow.id)
    if not done:
        raise _RefusedError(f"it is {flow.status} now")
    return _Done((await read_flows(conn, [flow.id]))[flow.id].status)


async def _reconcile(conn: asyncpg.Connection, flow: WorkflowRow) -> _Done:
    repairs = await reconcile(conn, flow.id, 0)
    if not repairs:
        raise _RefusedError("nothing in it is out of step any more")
    told = [{"node": one.node_id, "from": one.before, "to": one.after, "why": one.why} for one in repairs[:_MOST_TOLD]]
    return _Done(counted(len(repairs), "repair"), {"repairs": told})


async def _retry(conn: asyncpg.Connection, flow: WorkflowRow) -> _Done:
    reopening = await controlling.retry_from_failed(conn, flow.id)
    again = [one for one in reopening.reopened.values() if one.node.status == "FAILED" and not one.keep]
    # Their former tasks stay as they are, and belong to no node any more.
    tasks = {one.node.node_id: one.node.task_id for one in again[:_MOST_TOLD]}
    return _Done(f"RUNNING, {counted(len(again), 'node')} again", {"former_tasks": tasks})


async def _rerun(conn: asyncpg.Connection, seen: WorkflowFacts) -> _Done:
    rows = await conn.fetch(statement("horsies.operations.workflows", "workflow_last_actions"), [seen.flow.id])
    if (rows[0][1] if rows else None) != seen.last_action:
        raise _RefusedError("it was acted on by hand meanwhile")
    copy = await copy_workflow(conn, seen.flow.id)
    return _Done(f"runs again as {copy}", {"new_workflow_id": copy}, copy)


async def _on_node(conn: asyncpg.Connection, act: Act, verb: WorkflowVerb, seen: NodeRow, value: str | None) -> _Done:
    nodes = (await read_nodes(conn, [seen.workflow_id]))[seen.workflow_id]
    now = next((node for node in nodes if node.index == seen.index), None)
    if now is None:
        raise _RefusedError("it is gone: its row was deleted")
    if (now.status, now.task_id, now.sub_workflow_id) != (seen.status, seen.task_id, seen.sub_workflow_id):
        raise _RefusedError(f"it is {now.status} now")
    deed = OperatorAction(act.operation_id, act.verb, act.actor.os_user, act.actor.os_host, act.reason, None)
    if verb is WorkflowVerb.SKIP:
        done = await controlling.skip_node(conn, now.workflow_id, now.index, deed.words("skipped"))
    else:
        result = f'{{"{tags.TASK_RESULT}":true,"ok":{value},"err":null}}'
        done = await controlling.complete_node(conn, now.workflow_id, now.index, result, deed.words("completed"))
    if not done:
        raise _RefusedError("its task has just ended")
    after = "SKIPPED" if verb is WorkflowVerb.SKIP else "COMPLETED"
    told = {"node": now.node_id, "node_before": now.status, "node_after": after, "task": now.task_id}
    return _Done(after, told if value is None or len(value) > 65_536 else {**told, "value": value})


async def _state(conn: asyncpg.Connection, flow: WorkflowRow) -> dict[str, Any]:
    nodes = (await read_nodes(conn, [flow.id]))[flow.id]
    return {"status": flow.status, "nodes": dict(Counter(node.status for node in nodes))}


async def refuse(
    conn: asyncpg.Connection, act: Act, target: Target, reason: str, before: dict[str, Any] | None = None
) -> RowOutcome:
    """Write only the audit row of a refusal."""
    await _trace(conn, act, target, "refused", reason, before, None)
    return RowOutcome(target, applied=False, detail=reason)


async def _trace(
    conn: asyncpg.Connection,
    act: Act,
    target: Target,
    outcome: str,
    detail: str | None,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    await conn.execute(
        statement(__name__, "audit_workflow"),
        act.operation_id,
        act.verb,
        target.kind,
        target.id,
        outcome,
        detail,
        None if before is None else to_json(before),
        None if after is None else to_json(after),
        act.actor.os_user,
        act.actor.os_host,
        act.reason,
        act.undoes.get(target.id),
        act.filter,
    )
