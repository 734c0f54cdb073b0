"""How a queue fares: whether it drains, how fast, and when it will be empty."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from horsies.views import Count, QueueRate, QueueRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROWS_BY: Final = 1.05
"""So many times what goes out must come in before a queue is said to grow, and the other way round before it is said
to drain: rates are those of some minutes, and a few tasks that nobody can run would drain in another time each second.
"""
LEAST_TO_GROW: Final = 20
"""Due tasks below which nobody calls it growth."""
LONGEST: Final = timedelta(days=30)


class Course(Enum):
    """Where a queue is heading."""

    EMPTY = auto()
    PAUSED = auto()
    DRAINS = auto()
    HOLDS = auto()
    """As much comes as goes: it stays as long as it is."""
    GROWS = auto()
    STANDS = auto()
    """Nothing goes out."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """`left` is how long until no task is due any more; only of one that DRAINS."""

    course: Course
    left: timedelta | None = None
    growth_per_s: float = 0.0


def outlook(row: QueueRow, rate: QueueRate) -> Outlook:
    """From what is due now, and what came and went in the last minutes."""
    net = rate.out_per_s - rate.in_per_s
    if row.due.number == 0:
        return Outlook(Course.EMPTY)
    if row.paused_at is not None:
        return Outlook(Course.PAUSED, growth_per_s=rate.in_per_s)
    if row.due.number >= LEAST_TO_GROW and rate.in_per_s > 0 and rate.in_per_s > GROWS_BY * rate.out_per_s:
        return Outlook(Course.GROWS, growth_per_s=-net)
    if rate.out_per_s <= 0:
        return Outlook(Course.STANDS)
    if rate.out_per_s > GROWS_BY * rate.in_per_s and row.due.number / net < LONGEST.total_seconds():
        return Outlook(Course.DRAINS, timedelta(seconds=row.due.number / net))
    # What is due is less than what a second or a minute brings: it is taken as it comes.
    return Outlook(Course.HOLDS)


def all_queues(rows: Iterable[QueueRow]) -> QueueRow:
    """The sum of them, which has no name, no cap and no pause."""
    rows = tuple(rows)
    return QueueRow(
        name="",
        due=_sum(row.due for row in rows),
        later=_sum(row.later for row in rows),
        oldest_due_at=min((row.oldest_due_at for row in rows if row.oldest_due_at is not None), default=None),
        claimed=sum(row.claimed for row in rows),
        running=sum(row.running for row in rows),
        cap=None,
        priority=None,
        workers=max((row.workers for row in rows), default=0),
        paused_at=None,
        paused_by=None,
        paused_reason=None,
    )


def all_rates(rates: Mapping[str, QueueRate]) -> QueueRate:
    return QueueRate(sum(rate.in_per_s for rate in rates.values()), sum(rate.out_per_s for rate in rates.values()))


def _sum(counts: Iterable[Count]) -> Count:
    counts = tuple(counts)
    return Count(sum(count.number for count in counts), any(count.at_least for count in counts))
