"""The claim token, by which a worker may write to a task; its signs of life, and the sessions that lock its row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.domain.progress_pace import Reading


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


async def renew(
    conn: asyncpg.Connection, worker_id: str, lease_ms: int, max_age_ms: int, *, hostname: str, pid: int
) -> set[Token]:
    """Beat for all claims of this worker, and renew the leases of those younger than `max_age_ms`. Returns all found.

    An expired lease is not renewed. A returned token that the worker does not know belongs to a claim whose reply was
    lost or has not arrived yet. A known token that is missing is not necessarily lost: rows that another session is
    changing at this moment are left out.
    """
    rows = await conn.fetch(statement(__name__, "renew"), worker_id, lease_ms, max_age_ms, hostname, pid)
    return {Token(task_id, worker_id, claimed_at) for task_id, claimed_at in rows}


async def beat(
    conn: asyncpg.Connection, worker_id: str, hostname: str, running: Collection[tuple[Token, int]]
) -> set[Token]:
    """Store a heartbeat for each token, with the pid of its child process. Return stale tokens: stop their tasks."""
    tokens = [token for token, _ in running]
    if not tokens:
        return set()
    pids = [pid for _, pid in running]
    rows = await conn.fetch(statement(__name__, "beat"), worker_id, ids(tokens), claim_times(tokens), pids, hostname)
    return set(tokens).difference(tokens[number - 1] for (number,) in rows)


class ProgressReport(NamedTuple):
    """`rate` per second, `gap_s` the usual time between two changes. `ended`: its outcome has been stored."""

    token: Token
    reading: Reading
    rate: float | None
    gap_s: float | None
    ended: bool


async def store_progress(conn: asyncpg.Connection, worker_id: str, reports: Sequence[ProgressReport]) -> None:
    """Store the reports; those of runs that this worker has lost change nothing."""
    ordered = sorted(reports, key=lambda report: (report.token.task_id, report.token.claimed_at))
    tokens = [report.token for report in ordered]
    await conn.execute(
        statement(__name__, "store_progress"),
        worker_id,
        ids(tokens),
        claim_times(tokens),
        [report.ended for report in ordered],
        [report.reading.done for report in ordered],
        [report.reading.total for report in ordered],
        [report.reading.unit for report in ordered],
        [report.rate for report in ordered],
        [report.gap_s for report in ordered],
    )
