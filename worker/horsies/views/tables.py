"""The presence of our own tables in a database: upstream's has none of them and can be viewed all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that exist, in the column order of the statement."""

    actions: bool
    queue_state: bool
    worker_orders: bool
    worker_losses: bool
    schedules: bool
    now: datetime
    no_writes: str | None = None
    """Why this role, or this server, cannot write here; None if it can."""
    outages: bool = False


async def tables(conn: asyncpg.Connection) -> Tables:
    """Read again each time: `horsies db upgrade` may run while a console is open."""
    return Tables(*await conn.fetchrow(statement(__name__, "view_tables")))


async def is_as_the_server(conn: asyncpg.Connection) -> bool:
    """Return whether the default for read-only transactions is the server's, not that of a role or database."""
    found: bool = await conn.fetchval(statement(__name__, "view_default_source"))
    return found
