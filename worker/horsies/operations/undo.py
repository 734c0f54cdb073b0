"""Takes an operation back where there is a way back, and says no where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle import by_hand
from horsies.lifecycle.by_hand import Deed
from horsies.operations.audit import actions_of, require_writable
from horsies.operations.batches import in_batches
from horsies.operations.preview import OperationError, RowOutcome, Target
from horsies.operations.undo_orders import undo_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import asyncpg

    from horsies.operations.actor import Actor
    from horsies.operations.audit import Action
    from horsies.operations.preview import Outcome


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
    if not actions:
        raise OperationError(
            f"no operation {operation_id} has changed anything",
            help_text="`horsies audit ls` lists what was done by hand",
        )
    undoing = UUID(new_task_id())
    deed = Deed(undoing, "undo", actor.os_user, actor.os_host, reason, None)
    tasks = [_target(action) for action in actions if action.target_kind == "task"]

    async def step(part: Sequence[Target]) -> list[RowOutcome]:
        became = await by_hand.undo(conn, deed, {target.seen.id: target.id for target in part})
        return [_row_outcome(target, became[target.seen.id]) for target in part]

    outcome = await in_batches(conn, undoing, "undo", tasks, step, on_progress=on_progress, batch=batch)
    orders = await undo_orders(conn, operation_id, undoing, actor, reason)
    return replace(outcome, rows=(*outcome.rows, *orders))


def _target(action: Action) -> Target:
    return Target("task", action.target_id, action.verb, action.status or "?", action)


def _row_outcome(target: Target, became: by_hand.Became) -> RowOutcome:
    if became.refusal is not None:
        return RowOutcome(target, False, became.refusal)
    return RowOutcome(target, True, f"try {(became.retry_count or 0) + 1} as before {target.label}")
