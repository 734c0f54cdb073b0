"""The records of a check of the database.

`examine.py` runs the `CHECKS` of every module in `horsies.doctor.checks` one after the other; `horsies doctor` prints
their lines.
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
    """The check could not run, mostly for lack of a privilege; the remedy is the grant."""
    WARN = "warn"
    """It works now, but will fail later."""
    FAIL = "fail"
    """It does not work, or is about to stop the database."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One result of a check, its evidence, and the command that corrects it."""

    verdict: CheckVerdict
    evidence: str
    remedy: str | None = None
    check: str = ""
    """The name of the check; `examine` adds it."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The examined database. All times are by its clock."""

    connection: asyncpg.Connection
    database: Database
    config: AppConfig | None
    """The settings of the application, if one was named."""
    schema: SchemaState
    role: str
    now: datetime
    sees_all_sessions: bool
    """True if the role may read the state of other roles' sessions and list the files of the WAL."""
    pooled: bool
    pooler_warnings: tuple[str, ...]

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a short read-only transaction, in which the limits of the session apply behind a pooler, too."""
        async with transaction(self.connection):
            yield self.connection

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.reading() as connection:
            rows: list[asyncpg.Record] = await connection.fetch(query, *arguments)
        return rows

    def not_seen(self, what: str) -> CheckLine:
        """Return the line for data that only roles with pg_monitor may see."""
        return CheckLine(
            CheckVerdict.UNKNOWN, f"role {self.role} may not see {what}", f"GRANT pg_monitor TO {quoted(self.role)}"
        )


Examine: TypeAlias = "Callable[[CheckContext], Awaitable[Iterable[CheckLine]]]"


@dataclass(frozen=True, slots=True)
class Check:
    """A check. `examine` returns at least one line. It only reads, in short transactions, which block no work."""

    name: str
    place: int
    """Position in the order in which checks run and are shown; unique for each check."""
    examine: Examine
    needs_tables: bool = False
    """True if it reads our tables as this release creates them."""
