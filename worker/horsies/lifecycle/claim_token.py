"""The claim token, which decides whether a worker may still write to a task, and which sessions lock such rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    import asyncpg


@dataclass(frozen=True, slots=True)
class Token:
    """One claim of one task. `claimed_at` was issued by the database and differs for every claim of a row."""

    task_id: str
    worker_id: str
    claimed_at: datetime


class Verdict(Enum):
    """The result of a guarded write. STALE: the worker has lost the task and must drop its claim."""

    ACCEPTED = "accepted"
    STALE = "stale"


def in_order(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens ordered by task: every batch locks its rows in this order, so that no two batches deadlock."""
    return sorted(tokens, key=attrgetter("task_id"))


def ids(tokens: Iterable[Token]) -> list[str]:
    return [token.task_id for token in tokens]


def claim_times(tokens: Iterable[Token]) -> list[datetime]:
    return [token.claimed_at for token in tokens]


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The session that has locked a row; both fields are None if it could not be determined."""

    pid: int | None
    application_name: str | None

    def __str__(self) -> str:
        return "unknown" if self.pid is None else f"pid {self.pid} ({self.application_name or 'no name'})"


async def locked_rows(conn: asyncpg.Connection, worker_id: str, tokens: Collection[Token]) -> dict[Token, LockHolder]:
    """Return which of these executions have locked rows now, each with the session that holds the lock."""
    asked = in_order(tokens)
    if not asked:
        return {}
    rows = await conn.fetch(statement(__name__, "locked_rows"), worker_id, ids(asked), claim_times(asked))
    return {asked[number - 1]: LockHolder(pid, name) for number, pid, name in rows}
