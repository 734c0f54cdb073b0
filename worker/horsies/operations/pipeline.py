"""The two steps of every verb: `preview` judges the selected rows, `apply` changes them in batches, with audit rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from uuid import UUID

from horsies.domain.ids import new_task_id
from horsies.lifecycle.advancing import follow
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
from horsies.operations.target import OperationError, RowOutcome
from horsies.operations.verb import OperationOutcome
from horsies.store.isolate_bad_rows import CLASHES, isolate_bad_rows
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import asyncpg

    from horsies.domain.states import TargetKind
    from horsies.operations.selection import Selection
    from horsies.operations.target import Actor, Target
    from horsies.operations.verb import Preview, Verb

T = TypeVar("T")

_TRIES: Final = 5


class Targets(Protocol):
    """A module of one kind of targets."""

    preview_of: Callable[..., Any]
    """(connection, verb, selection, options): the preview. Reads only."""
    change: Callable[..., Any]
    """(connection, action, verb, targets): their results, in the caller's transaction, with their audit rows."""
    WRITES: tuple[str, ...]
    """The tables that the verbs write besides those of tasks and of audit rows."""


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

    If cancelled, or interrupted from `on_progress(done, all)`, it finishes the current batch and returns the results; a
    second cancellation stops it at once. An error of the database ends it too, and is raised only if nothing was done.
    """
    verb, targets = preview.verb, _TARGETS[preview.verb.kind]
    await require_writable(conn, *targets.WRITES)
    action = OperatorAction(UUID(new_task_id()), verb.name, actor, reason, preview.filter, options=preview.options)
    step = partial(targets.change, conn, action, verb)
    # Sorted, so that two operators lock the same rows in the same order.
    ordered = sorted(preview.eligible, key=attrgetter("id")) if verb.kind == "task" else preview.eligible
    most = undo.batch_of(ordered) if verb.kind == "operation" else verb.batch
    outcome = OperationOutcome(action.operation_id, verb, ())
    outcome = await _in_batches(conn, outcome, ordered, step, on_progress, most if batch is None else min(batch, most))
    if action.ended and not conn.is_closed():
        # The changes are stored. If this fails, the next reconciliation advances the workflows.
        with suppress(*CONNECTION_ERRORS):
            await follow(conn, action.ended)
    return outcome


async def _in_batches(
    conn: asyncpg.Connection,
    outcome: OperationOutcome,
    targets: Sequence[Target],
    step: Callable[[Sequence[Target]], Awaitable[list[RowOutcome]]],
    on_progress: Callable[[int, int], None] | None,
    size: int,
) -> OperationOutcome:
    """Complete the outcome with the results of `step`, `size` targets at a time, each batch in its own transaction.

    Of a batch that the database rejects, or in which rows stay locked, only those rows are refused.
    """
    if conn.is_in_transaction():
        raise OperationError(
            "the connection is inside a transaction, so no change would take effect before that ends",
            help_text="apply operations on a separate connection",
        )

    async def in_transaction(some: Sequence[Target], tries: int = _TRIES) -> list[RowOutcome]:
        while True:
            tries -= 1
            try:
                # A role may have a stricter default, under which a session that waited for a row gets an error instead
                # of its state.
                async with conn.transaction(isolation="read_committed"):
                    await conn.execute(statement(__name__, "op_begin"))
                    return await step(some)
            except CLASHES:
                if not tries:
                    raise

    rows: list[RowOutcome] = []
    for first in range(0, len(targets), size):
        part = targets[first : first + size]
        try:
            done, cancelled = await _uninterrupted(isolate_bad_rows([part], in_transaction))
            rows += [row for answer in done.answers for row in answer]
            rows += [RowOutcome(one.item, False, f"the database rejects it: {one.error}") for one in done.refused]
            if on_progress is not None:
                on_progress(first + len(part), len(targets))
        except KeyboardInterrupt:
            cancelled = True
        except CONNECTION_ERRORS as error:
            in_doubt = tuple(part) if conn.is_closed() else ()
            if not rows and not in_doubt:
                raise
            left, why = tuple(targets[first + len(in_doubt) :]), f"{type(error).__name__}: {error}"
            return replace(outcome, rows=tuple(rows), not_attempted=left, in_doubt=in_doubt, stopped=why)
        left = tuple(targets[first + len(part) :])
        if cancelled and left:
            return replace(outcome, rows=tuple(rows), not_attempted=left, stopped="interrupted")
    return replace(outcome, rows=tuple(rows))


async def _uninterrupted(work: Awaitable[T]) -> tuple[T, bool]:
    """Return the result, and whether the caller was cancelled in the meantime.

    It is not interrupted: it would be unknown whether an interrupted COMMIT was stored.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running), False
    except asyncio.CancelledError:
        if running.cancelled() or (task := asyncio.current_task()) is None:
            raise
        task.uncancel()
        return await running, True
