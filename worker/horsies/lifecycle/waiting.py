"""When a task falls due that no notification announces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg


async def next_due(conn: asyncpg.Connection, queues: Collection[str]) -> float | None:
    """Seconds until the next PENDING task of these queues that is not due yet falls due; None if there is none."""
    seconds: float | None = await conn.fetchval(statement(__name__, "next_due"), list(queues))
    return seconds
