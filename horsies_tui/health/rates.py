"""How a queue fares: whether it drains, how fast, and when it will be empty."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from horsies.views import QueueRate, QueueRow
from horsies.views.figures import total

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
    # No worker claims from it, whatever went out in the minutes before.
    if not row.claiming:
        return Outlook(Course.STANDS)
    if row.due.number >= LEAST_TO_GROW and rate.in_per_s > 0 and rate.in_per_s > GROWS_BY * rate.out_per_s:
        return Outlook(Course.GROWS, growth_per_s=-net)
    if rate.out_per_s <= 0:
        return Outlook(Course.STANDS)
    if rate.out_per_s > GROWS_BY * rate.in_per_s and row.due.number / net < LONGEST.total_seconds():
        return Outlook(Course.DRAINS, timedelta(seconds=row.due.number / net))
    # What is due is less than what a second or a minute brings: it is taken as it comes.
    return Outlook(Course.HOLDS)


_WORST_FIRST: Final = (Course.STANDS, Course.GROWS, Course.HOLDS, Course.DRAINS, Course.PAUSED)


def outlook_of_all(outlooks: Iterable[Outlook]) -> Outlook:
    """That of the queue that fares worst; of those that drain, the one that takes longest; of those that grow, the sum.

    Not made of the sums of their numbers: what goes out of one queue does not drain another one that is paused.
    """
    outlooks = tuple(outlooks)
    for course in _WORST_FIRST:
        these = [outlook for outlook in outlooks if outlook.course is course]
        if these:
            left = max((outlook.left for outlook in these if outlook.left is not None), default=None)
            return Outlook(course, left, sum(outlook.growth_per_s for outlook in these))
    return Outlook(Course.EMPTY)


def all_queues(rows: Iterable[QueueRow]) -> QueueRow:
    """The sum of them, which has no name, no cap and no pause."""
    rows = tuple(rows)
    return QueueRow(
        name="",
        due=total(row.due for row in rows),
        later=total(row.later for row in rows),
        oldest_due_at=min((row.oldest_due_at for row in rows if row.oldest_due_at is not None), default=None),
        claimed=sum(row.claimed for row in rows),
        running=sum(row.running for row in rows),
        cap=None,
        priority=None,
        workers=max((row.workers for row in rows), default=0),
        draining=0,
        paused_at=None,
        paused_by=None,
        paused_reason=None,
    )


def all_rates(rates: Mapping[str, QueueRate]) -> QueueRate:
    return QueueRate(sum(rate.in_per_s for rate in rates.values()), sum(rate.out_per_s for rate in rates.values()))
