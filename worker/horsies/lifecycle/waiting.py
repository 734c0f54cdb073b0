"""When there will be something to claim although nothing notifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg


async def next_due(conn: asyncpg.Connection, queues: Collection[str]) -> float | None:
    """Seconds until the first PENDING task of these queues falls due that is not due yet; None where there is none."""
    seconds: float | None = await conn.fetchval(statement(__name__, "next_due"), list(queues))
    return seconds
