"""Undoes an operation if it can be undone, and refuses with the reason otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle import operator_actions as by_hand
from horsies.lifecycle.operator_actions import ExpectedState, OperatorAction
from horsies.lifecycle.workflow_rows import read_flows
from horsies.operations.audit import actions_of, require_writable, standing
from horsies.operations.batches import in_batches
from horsies.operations.preview import Preview, Refusal, RowOutcome, Target
from horsies.operations.tasks import tell_workflows
from horsies.operations.undo_orders import undo_orders
from horsies.operations.undo_workflows import undo_workflows, why_no_way_back
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import asyncpg

    from horsies.lifecycle.workflow_rows import WorkflowRow
    from horsies.operations.actor import Actor
    from horsies.operations.audit import Action
    from horsies.operations.preview import Outcome


_LEFT_AS: Mapping[str, str] = {"requeue": "PENDING", "fail": "FAILED", "cancel": "CANCELLED", "retry-now": "PENDING"}
_NO_WAY_BACK: Mapping[str, str] = {
    "rerun": "the copy is a task of its own: cancel it instead",
    "release": "a claim cannot be given back to a worker",
    "expire": "its good_until has passed: requeue it to run it all the same",
}


async def preview(conn: asyncpg.Connection, operation_id: UUID) -> Preview:
    """What would be undone at present; the statements check again, and more closely. Reads only."""
    now = (await standing(conn)).now
    actions = await actions_of(conn, operation_id)
    ids = [action.target_id for action in actions if action.target_kind == "task"]
    rows = {
        row[0]: ExpectedState(*row)
        for row in await conn.fetch(statement("horsies.operations.selection", "op_see"), ids)
    }
    flows = await read_flows(conn, [action.target_id for action in actions if action.target_kind == "workflow"])
    judged = [
        (
            _named(_target(action), rows.get(action.target_id), flows.get(action.target_id)),
            _why_not(action, rows.get(action.target_id), flows.get(action.target_id)),
        )
        for action in actions
    ]
    return Preview(
        verb="undo",
        options={},
        eligible=tuple(target for target, reason in judged if reason is None),
        refused=tuple(Refusal(target, reason) for target, reason in judged if reason is not None),
        consequences=("each is again as it was before, unless it has changed since",),
        filter=None,
        command=f"horsies audit undo {operation_id}",
        taken_at=now,
    )


def _why_not(action: Action, seen: ExpectedState | None, flow: WorkflowRow | None) -> str | None:
    if action.target_kind in ("workflow", "node"):
        return why_no_way_back(action.verb, None if flow is None else flow.status)
    if action.target_kind != "task":
        return None
    if action.verb not in _LEFT_AS:
        return _NO_WAY_BACK.get(action.verb, f"there is no way back from {action.verb}")
    if action.status == "RUNNING":
        return "its run was taken away, and that attempt is history"
    if action.verb == "requeue" and action.status == "CLAIMED":
        return _NO_WAY_BACK["release"]
    if seen is None:
        return "it is gone: its row was deleted"
    return None if seen.status == _LEFT_AS[action.verb] else f"it is {seen.status} now, try {seen.retry_count + 1}"


async def undo(
    conn: asyncpg.Connection,
    operation_id: UUID,
    actor: Actor,
    reason: str | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    batch: int = 500,
) -> Outcome:
    """The inverse for each row that the operation changed; a row without one is refused with the reason."""
    await require_writable(conn)
    actions = await actions_of(conn, operation_id)
    undoing = UUID(new_task_id())
    deed = OperatorAction(undoing, "undo", actor.os_user, actor.os_host, reason, None)
    tasks = [_target(action) for action in actions if action.target_kind == "task"]

    async def step(part: Sequence[Target]) -> list[RowOutcome]:
        became = await by_hand.undo(conn, deed, {target.seen.id: target.id for target in part})
        return [_row_outcome(target, became[target.seen.id]) for target in part]

    outcome = await in_batches(conn, undoing, "undo", tasks, step, on_progress=on_progress, batch=batch)
    await tell_workflows(conn, [target.seen.target_id for target in tasks])
    orders = await undo_orders(conn, operation_id, undoing, actor, reason)
    workflows = await undo_workflows(conn, operation_id, undoing, actor, reason)
    return replace(outcome, rows=(*outcome.rows, *orders, *workflows))


def _target(action: Action) -> Target:
    return Target(action.target_kind, action.target_id, action.verb, action.status or "?", action)


def _named(target: Target, seen: ExpectedState | None, flow: WorkflowRow | None) -> Target:
    """With the name of the task or workflow beside the verb, so that the operator can check that it is the right
    one."""
    if seen is not None:
        return replace(target, label=f"{seen.task_name}, {target.label}", queue=seen.queue_name)
    return target if flow is None else replace(target, label=f"{flow.name}, {target.label}")


def _row_outcome(target: Target, became: by_hand.TransitionResult) -> RowOutcome:
    if became.refusal is not None:
        return RowOutcome(target, False, became.refusal)
    return RowOutcome(target, True, f"try {(became.retry_count or 0) + 1} as before {target.label}")
