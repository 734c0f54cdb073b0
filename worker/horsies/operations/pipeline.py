"""The two steps of every verb: `preview` selects and checks rows, `apply` changes them with their audit rows."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle.following import follow
from horsies.operations import (
    queue_targets,
    schedule_targets,
    session_targets,
    task_targets,
    undo,
    worker_targets,
    workflow_targets,
)
from horsies.operations.audit_rows import OperatorAction, require_writable
from horsies.operations.batches import in_batches
from horsies.store.pool import CONNECTION_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import asyncpg

    from horsies.domain.states import TargetKind
    from horsies.operations.preview import OperationOutcome, Preview
    from horsies.operations.selection import Selection
    from horsies.operations.target import Actor
    from horsies.operations.verb import Verb


class Targets(Protocol):
    """A module of one kind of targets."""

    preview_of: Callable[..., Any]
    """(connection, verb, selection, options): the preview. Reads only."""
    change: Callable[..., Any]
    """(connection, action, verb, targets, options, ended): their results, in the caller's transaction, with their audit
    rows. The tasks that it ends are appended to `ended`: their workflows are advanced afterwards."""
    WRITES: tuple[str, ...]
    """The tables that the verbs write besides those of tasks and of audit rows."""
    batch_of: Callable[..., int]
    """(verb, targets): how many are changed in one transaction."""


_TARGETS: Mapping[TargetKind, Targets] = {
    "task": task_targets,
    "workflow": workflow_targets,
    "node": workflow_targets,
    "worker": worker_targets,
    "queue": queue_targets,
    "schedule": schedule_targets,
    "session": session_targets,
    "operation": undo,
}


async def preview(conn: asyncpg.Connection, verb: Verb, selection: Selection, **options: Any) -> Preview:
    """Return what the verb would do to each selected target. Reads only.

    FilterError for a filter that cannot be parsed, OperationError for a verb that does not apply to this selection or
    these options.
    """
    preview: Preview = await _TARGETS[verb.kind].preview_of(conn, verb, selection, verb.checked(options))
    alike = Counter(preview.consequences)  # several targets may have the same effect
    said = tuple(text if count == 1 else f"{text} ({count:,} alike)" for text, count in alike.items())
    return replace(preview, consequences=said)


def hold_for(verb: Verb, selection: Selection) -> undo.Hold | None:
    """Return the hold of what the verb would undo; only an undo has one. Its owner renews and releases it."""
    return undo.Hold(selection.ids[0]) if verb.kind == "operation" else None


async def apply(
    conn: asyncpg.Connection,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    batch: int | None = None,
) -> OperationOutcome:
    """Change the preview's eligible targets that are still as they were seen, each with its audit row.

    If cancelled, or interrupted from `on_progress(done, all)`, it ends the current batch and returns the results.
    """
    verb, targets = preview.verb, _TARGETS[preview.verb.kind]
    await require_writable(conn, *targets.WRITES)
    action = OperatorAction(UUID(new_task_id()), verb.name, actor, reason, preview.filter)
    ended: list[str] = []
    step = partial(targets.change, conn, action, verb, options=preview.options, ended=ended)
    # Sorted, so that two operators lock the same rows in the same order.
    ordered = sorted(preview.eligible, key=attrgetter("id")) if verb.kind == "task" else preview.eligible
    most = targets.batch_of(verb, ordered)
    size = most if batch is None else min(batch, most)
    outcome = await in_batches(conn, action.operation_id, verb, ordered, step, on_progress=on_progress, batch=size)
    if ended and not conn.is_closed():
        # The changes are stored. If this fails, the next reconciliation advances the workflows.
        with suppress(*CONNECTION_ERRORS):
            await follow(conn, ended)
    return outcome
