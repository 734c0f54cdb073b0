"""The next due time of a task that no notification announces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg


async def next_due(conn: asyncpg.Connection, queues: Collection[str]) -> tuple[float | None, float | None]:
    """Seconds until the next PENDING task of these queues that is not due yet is, and until a retry of any queue is.

    None if there is none. The second one is for rows of other writers, which may be due later than they are enqueued.
    """
    due_in, retry_in = await conn.fetchrow(statement(__name__, "next_due"), list(queues))
    return due_in, retry_in
