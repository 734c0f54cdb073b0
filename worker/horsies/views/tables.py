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
    standby: bool = False


async def tables(conn: asyncpg.Connection) -> Tables:
    """Read again each time: `horsies db upgrade` may run while a console is open."""
    return Tables(*await conn.fetchrow(statement(__name__, "view_tables")))


@dataclass(frozen=True, slots=True)
class Replay:
    """How far a standby has followed its primary. In the column order of the statement."""

    received: int | None
    """A position in the log; None without streaming."""
    replayed: int | None
    newest: datetime | None
    """When the newest transaction that can be read here was committed on the primary."""
    paused: bool
    receives: bool
    """Whether it is connected to its primary."""
    now: datetime


async def replay(conn: asyncpg.Connection) -> Replay | None:
    """None: the server is no standby, or no longer."""
    row = await conn.fetchrow(statement(__name__, "view_replay"))
    return None if row is None else Replay(*row)


async def is_as_the_server(conn: asyncpg.Connection) -> bool:
    """Return whether the default for read-only transactions is the server's, not that of a role or database."""
    found: bool = await conn.fetchval(statement(__name__, "view_default_source"))
    return found
