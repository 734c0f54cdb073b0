"""The sessions of all views: their settings, the existing tables, and the decoding of stored times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from horsies.domain.damage import number
from horsies.store.statements import statement

if TYPE_CHECKING:
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
    """The reason why this role, or this server, cannot write; None if it can."""
    outages: bool = False
    standby: bool = False


async def tables(conn: asyncpg.Connection) -> Tables:
    """Read which tables exist, each time: `horsies db upgrade` may run while a console is open."""
    return Tables(*await conn.fetchrow(statement(__name__, "view_tables")))


_readable: WeakKeyDictionary[asyncpg.Connection, set[str]] = WeakKeyDictionary()


async def has_table(conn: asyncpg.Connection, table: str) -> bool:
    """Return whether the table exists and the role may read it; asked again until an upgrade has created it."""
    found = _readable.setdefault(conn, set())
    if table not in found and await conn.fetchval(statement(__name__, "view_has_table"), table):
        found.add(table)
    return table in found


@dataclass(frozen=True, slots=True)
class Replay:
    """The progress of a standby behind its primary, in the column order of the statement."""

    received: int | None
    """A position in the log; None without streaming."""
    replayed: int | None
    newest: datetime | None
    """Time at which the newest transaction that is visible here was committed on the primary."""
    paused: bool
    receives: bool
    """True if it is connected to its primary."""
    now: datetime


async def replay(conn: asyncpg.Connection) -> Replay | None:
    """Read the replay of a standby; None if the server is not a standby, or no longer."""
    row = await conn.fetchrow(statement(__name__, "view_replay"))
    return None if row is None else Replay(*row)


async def is_as_the_server(conn: asyncpg.Connection) -> bool:
    """Return whether the default for read-only transactions is the server's, not that of a role or database."""
    found: bool = await conn.fetchval(statement(__name__, "view_default_source"))
    return found


READER_SETTINGS: tuple[tuple[str, str], ...] = (
    # Only a plan for the given values estimates well how few rows match, and can use a partial index.
    ("plan_cache_mode", "force_custom_plan"),
    # Otherwise the planner reads the table from the beginning to find "any ten thousand" rows at its end.
    ("enable_seqscan", "off"),
    # A bitmap is filled to its end before the first row is read: no LIMIT bounds it.
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    # A reader times out on its own, and reads the cause while it still waits for the lock.
    ("lock_timeout", "0"),
    # Some of upstream's columns have their time without a zone, in UTC; they are compared with now().
    ("timezone", "UTC"),
)


def decoded(value: Any) -> Any:
    """Decode a column of measured numbers and times."""
    return number(value) if isinstance(value, float) else aware(value)


def aware(value: Any) -> Any:
    """Add UTC to a time of a column that upstream created without a zone; return other values unchanged."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
