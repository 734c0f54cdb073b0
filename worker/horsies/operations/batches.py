"""Many rows in batches: each batch is one transaction, a run can be stopped between two, and its result is exact."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from horsies.operations.preview import OperationOutcome
from horsies.operations.target import OperationError, RowOutcome
from horsies.store.isolate_bad_rows import CLASHES, isolate_bad_rows
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from uuid import UUID

    import asyncpg

    from horsies.operations.target import Target
    from horsies.operations.verb import Verb

T = TypeVar("T")

_TRIES: Final = 5


async def in_batches(
    conn: asyncpg.Connection,
    operation_id: UUID,
    verb: Verb,
    targets: Sequence[Target],
    step: Callable[[Sequence[Target]], Awaitable[list[RowOutcome]]],
    *,
    on_progress: Callable[[int, int], None] | None,
    batch: int,
) -> OperationOutcome:
    """Return the results of `step` for all targets, `batch` at a time, each batch in a separate transaction.

    If cancelled, or interrupted from `on_progress`, it finishes the current batch and returns; a second cancellation
    stops it at once. An error of the database ends it too, and is raised only if nothing has been done.
    """
    if conn.is_in_transaction():
        raise OperationError(
            "the connection is inside a transaction, so no change would take effect before that ends",
            help_text="apply operations on a separate connection",
        )
    rows: list[RowOutcome] = []
    for first in range(0, len(targets), batch):
        part = targets[first : first + batch]
        try:
            done, cancelled = await _uninterrupted(_isolating_bad_rows(conn, part, step))
            rows += done
            if on_progress is not None:
                on_progress(first + len(part), len(targets))
        except KeyboardInterrupt:
            cancelled = True
        except CONNECTION_ERRORS as error:
            in_doubt = tuple(part) if conn.is_closed() else ()
            if not rows and not in_doubt:
                raise
            left = tuple(targets[first + len(in_doubt) :])
            return OperationOutcome(operation_id, verb, tuple(rows), left, in_doubt, f"{type(error).__name__}: {error}")
        left = tuple(targets[first + len(part) :])
        if cancelled and left:
            return OperationOutcome(operation_id, verb, tuple(rows), left, stopped="interrupted")
    return OperationOutcome(operation_id, verb, tuple(rows))


async def _isolating_bad_rows(
    conn: asyncpg.Connection, part: Sequence[Target], step: Callable[[Sequence[Target]], Awaitable[list[RowOutcome]]]
) -> list[RowOutcome]:
    """Return the results of `step`. Only rows that the database rejects, or that stay locked, are refused."""

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

    done = await isolate_bad_rows([part], in_transaction)
    refused = [RowOutcome(refusal.item, False, f"the database rejects it: {refusal.error}") for refusal in done.refused]
    return [row for answer in done.answers for row in answer] + refused


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
