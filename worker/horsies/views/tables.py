"""Which of our own tables a database has: one made by upstream has none of them and is shown all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg


@dataclass(frozen=True, slots=True)
class Tables:
    """In the order of the statement."""

    actions: bool
    queue_state: bool
    worker_orders: bool
    worker_losses: bool
    now: datetime
    no_writes: str | None = None
    """Why this role, or this server, changes nothing here; None where it may."""


async def tables(conn: asyncpg.Connection) -> Tables:
    """Asked anew each time: `horsies db upgrade` may run while somebody looks."""
    return Tables(*await conn.fetchrow(statement(__name__, "view_tables")))


async def is_as_the_server(conn: asyncpg.Connection) -> bool:
    """Whether no setting of its role or database decides if transactions of this session are read-only by default."""
    found: bool = await conn.fetchval(statement(__name__, "view_default_source"))
    return found
