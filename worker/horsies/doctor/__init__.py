"""The base of the checks of a database; each module of `horsies.doctor.checks` has some, found by their place.

`examine.py` runs them, one after the other; `horsies doctor` prints their lines.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from horsies.store.connect import transaction
from horsies.store.schema.migrations import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from datetime import datetime

    import asyncpg

    from horsies.config.app import AppConfig
    from horsies.store.connect import Database
    from horsies.store.schema import SchemaState


class CheckVerdict(StrEnum):
    """The results of a check, from good to bad."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It cannot be seen, mostly for lack of a right; the remedy is the grant."""
    WARN = "warn"
    """Works now, and will not for ever."""
    FAIL = "fail"
    """Something does not work, or is about to stop the database."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """The result of a check, its evidence, and the command that mends it."""

    verdict: CheckVerdict
    evidence: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The database under examination. All times are its own."""

    connection: asyncpg.Connection
    database: Database
    config: AppConfig | None
    """Of the application, if one was named."""
    schema: SchemaState
    role: str
    now: datetime
    sees_all_sessions: bool
    """Whether the role may read the state of other roles' sessions, and list the files of the WAL."""
    pooled: bool
    pooler_warnings: tuple[str, ...]

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncpg.Connection]:
        """A short transaction that reads; the limits of the session hold in it, behind a pooler too."""
        async with transaction(self.connection):
            yield self.connection

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.reading() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(query, *arguments)
        return rows

    def not_seen(self, what: str) -> CheckLine:
        """Return the line for what only roles with the rights of monitoring may see."""
        return CheckLine(
            CheckVerdict.UNKNOWN, f"role {self.role} may not see {what}", f"GRANT pg_monitor TO {quoted(self.role)}"
        )


Examine: TypeAlias = "Callable[[CheckContext], Awaitable[Iterable[CheckLine]]]"


@dataclass(frozen=True, slots=True)
class Check:
    """`examine` returns at least one line, and reads only, in short transactions: it must not disturb the database."""

    name: str
    place: int
    """Checks are run, and shown, in this order; no two have the same."""
    examine: Examine
    needs_tables: bool = False
    """Whether it reads tables of ours, as this release makes them."""
