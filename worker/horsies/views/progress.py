"""The progress of runs, as their code reports it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from horsies.domain.damage import DamagedNumber, number
from horsies.store.statements import statement
from horsies.views.reader_session import aware, has_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    import asyncpg

RunKey: TypeAlias = "tuple[str, datetime]"
"""A task, and the start of one of its runs."""

_FRESH_S: Final = 10.0
_MISSED: Final = 4
_WHOLE: Final = 10_000_000
_MAX_REMAINING_S: Final = 100 * 86_400


class ProgressWords(NamedTuple):
    """Texts like `34 %`, `3,400/10,000 rows`, `120/s`, `55s left`, or `4m ago` for an old report; any may be empty."""

    percent: str
    amount: str
    rate: str
    left: str

    def __str__(self) -> str:
        return " ".join(filter(None, self))


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of a run, in the column order of the statement."""

    done: float
    total: float | None
    unit: str | None
    rate: float | None
    """Recent rate per second; None before the second change."""
    gap_s: float | None
    """The usual time between two changes."""
    reported_at: datetime

    @property
    def share(self) -> float | None:
        """The share that is done, from 0 to 1; None without a total."""
        return max(min(self.done / self.total, 1.0), 0.0) if self.total else None

    def is_stale(self, now: datetime) -> bool:
        """Return whether it is so old that its rate is meaningless, because the code or its worker hangs."""
        return (now - self.reported_at).total_seconds() > max(_FRESH_S, _MISSED * (self.gap_s or 0))

    def left(self, now: datetime) -> timedelta | None:
        """Return the time left at this rate; None if it is unknown."""
        if self.total is None or not self.rate or self.done >= self.total or self.is_stale(now):
            return None
        left_s = (self.total - self.done) / self.rate - (now - self.reported_at).total_seconds()
        return timedelta(seconds=max(left_s, 0.0)) if left_s < _MAX_REMAINING_S else None

    @property
    def percent(self) -> str:
        """Return a text like `34 %`, never 100 % before all is done; empty without a total."""
        return f"{int(max(min(self.done * 100 / self.total, 100), 0))} %" if self.total else ""

    @property
    def amount(self) -> str:
        """Return a text like `3,400/10,000 rows`."""
        total = "" if self.total is None else f"/{_number(self.total)}"
        return f"{_number(self.done)}{total}" + (f" {self.unit}" if self.unit else "")

    def shown(self, now: datetime) -> dict[str, object]:
        """Return the values that follow from the fields at this moment."""
        left = self.left(now)
        return {
            "share": self.share,
            "stale": self.is_stale(now),
            "left_s": None if left is None else left.total_seconds(),
        }

    def words(self, now: datetime, lasting: Callable[[timedelta], str]) -> ProgressWords:
        if self.total is not None and self.done >= self.total:
            rate = left = ""
        elif self.is_stale(now):
            rate, left = "", f"{lasting(now - self.reported_at)} ago"
        else:
            rest = self.left(now)
            rate, left = _rate(self.rate) if self.rate else "", "" if rest is None else f"{lasting(rest)} left"
        return ProgressWords(self.percent, self.amount, rate, left)


async def progress_of(conn: asyncpg.Connection, runs: Collection[RunKey]) -> Mapping[RunKey, Progress]:
    """Read the reports; runs without one are omitted. Empty if the table is missing (upstream) or not readable."""
    if not runs or not await has_progress(conn):
        return {}
    tasks, starts = zip(*runs, strict=True)
    rows = await conn.fetch(statement(__name__, "view_progress"), tasks, starts)
    return {(key, begun): _sound(Progress(*told)) for key, begun, *told in (map(aware, row) for row in rows)}


def _sound(report: Progress) -> Progress:
    """Return the report; of a damaged one only the time and the unit."""
    for stored in (report.done, report.total, report.rate, report.gap_s):
        if isinstance(damaged := number(stored), DamagedNumber):
            return Progress(damaged, None, report.unit, None, None, report.reported_at)
    return report


async def part_done(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> Mapping[str, float]:
    """Return for each workflow the sum of the shares that its running nodes have reported."""
    if not workflow_ids or not await has_progress(conn):
        return {}
    rows = await conn.fetch(statement(__name__, "view_part_done"), list(workflow_ids))
    return {workflow_id: number(part) or 0.0 for workflow_id, part in rows}


async def has_progress(conn: asyncpg.Connection) -> bool:
    """Return whether the schema has version 12, with progress and its indexes."""
    return await has_table(conn, "horsies_progress")


def _number(value: float) -> str:
    if value >= _WHOLE:
        scale, letter = next(each for each in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= each[0])
        return f"{value / scale:,.1f}{letter}"
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def _rate(rate: float) -> str:
    """Return a rate like `120/s`, `1.3/s`, `7/min` or `2.5/h`."""
    for per, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if rate * per >= 1 or unit == "h":
            break
    return f"{_number(round(rate * per) if rate * per >= 10 else round(rate * per, 1))}/{unit}"
