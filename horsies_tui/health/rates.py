"""The trend of a queue: whether and how fast it drains, and when it will be empty."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from math import sqrt
from typing import TYPE_CHECKING, Final

from horsies.views import RATES_OVER, Flow, QueueRate, QueueRow
from horsies.views.cluster import total

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROWS_BY: Final = 1.05
"""The ratio of arrivals to departures from which a queue grows, and of departures to arrivals from which it drains.
Without this margin, a few tasks that no worker can run would change the shown time to drain each second."""
LEAST_TO_GROW: Final = 20
"""Least number of due tasks for a queue to be growing."""
LONGEST: Final = timedelta(days=30)
_LEAST_MOVES: Final = 8
"""Number of expected tasks from which their absence is not a coincidence."""
_ENDED: Final = 0.25
"""Share of a burst's rate below which the burst has ended."""


class Course(Enum):
    """The trend of a queue."""

    EMPTY = auto()
    PAUSED = auto()
    DRAINS = auto()
    HOLDS = auto()
    """As many tasks arrive as leave, within the margin."""
    GROWS = auto()
    STANDS = auto()
    """Tasks are due, but none leaves."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The trend of a queue. `left` is the time until no task is due, only for DRAINS. `paused`, for several queues, is
    the number of paused queues and of all."""

    course: Course
    left: timedelta | None = None
    growth_per_s: float = 0.0
    paused: tuple[int, int] | None = None


def flow_now(rate: QueueRate) -> Flow:
    """Return the arrivals and departures that determine the trend.

    They are those of the last minute, if its difference is not a coincidence. After a burst of arrivals, they are those
    of the last seconds, which tell when the workers will be done.
    """
    long, minute, moment = Flow(rate.in_per_s, rate.out_per_s, RATES_OVER.total_seconds()), rate.minute, rate.moment
    if minute is None:
        return long
    expected = 0.0 if moment is None else minute.in_per_s * moment.over_s
    if moment is not None and expected >= _LEAST_MOVES and moment.in_per_s <= _ENDED * minute.in_per_s:
        works = moment.out_per_s * moment.over_s >= _LEAST_MOVES
        return moment if works else minute._replace(in_per_s=moment.in_per_s)
    came, went = minute.in_per_s * minute.over_s, minute.out_per_s * minute.over_s
    return minute if abs(came - went) >= 2 * sqrt(came + went) else long


def outlook(row: QueueRow, rate: QueueRate) -> Outlook:
    """Return the trend, from the tasks that are due now and the rates of the last minute."""
    flow = flow_now(rate)
    net = flow.out_per_s - flow.in_per_s
    if row.due.number == 0:
        return Outlook(Course.EMPTY)
    if row.paused_at is not None:
        return Outlook(Course.PAUSED, growth_per_s=flow.in_per_s)
    # No worker claims from the queue, so its rates in the last minutes do not matter.
    if not row.claiming:
        return Outlook(Course.STANDS)
    if row.due.number >= LEAST_TO_GROW and flow.in_per_s > 0 and flow.in_per_s > GROWS_BY * flow.out_per_s:
        return Outlook(Course.GROWS, growth_per_s=-net)
    if rate.out_per_s <= 0 or (flow.out_per_s <= 0 and rate.out_per_s * flow.over_s >= _LEAST_MOVES):
        return Outlook(Course.STANDS)
    if flow.out_per_s > GROWS_BY * flow.in_per_s and row.due.number / net < LONGEST.total_seconds():
        return Outlook(Course.DRAINS, timedelta(seconds=row.due.number / net))
    # Fewer tasks are due than arrive in a short time, so tasks are run as they arrive.
    return Outlook(Course.HOLDS)


_WORST_FIRST: Final = (Course.STANDS, Course.GROWS, Course.HOLDS, Course.DRAINS, Course.PAUSED)


def outlook_of_all(outlooks: Iterable[Outlook]) -> Outlook:
    """Return the worst trend of all queues, with the longest time to drain, or the sum of the growth.

    A trend of the summed rates would mislead, because tasks that leave one queue do not drain a paused one.
    """
    outlooks = tuple(outlooks)
    for course in _WORST_FIRST:
        these = [outlook for outlook in outlooks if outlook.course is course]
        if these:
            left = max((outlook.left for outlook in these if outlook.left is not None), default=None)
            growth = sum(outlook.growth_per_s for outlook in these)
            return Outlook(course, left, growth, (len(these), len(outlooks)) if course is Course.PAUSED else None)
    return Outlook(Course.EMPTY)


def all_queues(rows: Iterable[QueueRow]) -> QueueRow:
    """Return the sum of the queues, without name, cap or pause."""
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
    """Return the sums of the rates. They have no trend; see `outlook_of_all`."""
    minutes = [rate.minute for rate in rates.values() if rate.minute is not None]
    minute = None
    if minutes:
        minute = Flow(sum(one.in_per_s for one in minutes), sum(one.out_per_s for one in minutes), minutes[0].over_s)
    found = rates.values()
    return QueueRate(sum(rate.in_per_s for rate in found), sum(rate.out_per_s for rate in found), minute)
