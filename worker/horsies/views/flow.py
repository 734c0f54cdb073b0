"""Tasks over time: how many ended in which status, how long they waited and ran, how many wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.store.statements import statement
from horsies.views.buckets import by_bucket
from horsies.views.queues import MOST_WAITING
from horsies.views.reading import aware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

    from horsies.views.buckets import Buckets

MOST_ENDED: Final = 60_000
"""Ended tasks that one series reads, an equal share for each bucket."""
RATES_OVER: Final = timedelta(minutes=5)
"""Rates of queues are measured over this time, or over the newest 10 000 tasks."""
MINUTE: Final = timedelta(minutes=1)
MOMENT: Final = timedelta(seconds=5)
"""Shorter times, whose rates show a trend: in five minutes an end of a burst or a stop of workers is not seen."""
LATELY: Final = timedelta(minutes=10)
BEFORE: Final = timedelta(hours=2)
"""Recent failures are compared with those in this time before."""
_MOST_FOR_RATES: Final = 10_000
_MOST_FAILURES: Final = 10_000


@dataclass(frozen=True, slots=True)
class TaskPoint:
    """One bucket, in the column order of the statement. All numbers None: unknown, or no task existed yet: a gap.

    `completed`, `failed` and `other` ended in it; with `partly` they are extrapolated from the first ones of each half.
    Waits and runs are those of tasks that ended in it, in seconds: the median and the 95th percentile. `waiting` tasks
    were due and had not begun at its end.
    """

    start: datetime
    seconds: float
    """How much of it has passed: the newest one is not over."""
    completed: float | None = None
    failed: float | None = None
    other: float | None = None
    partly: bool = False
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    waiting: float | None = None

    @property
    def ended_per_s(self) -> float | None:
        if self.completed is None or self.failed is None or self.other is None or self.seconds <= 0:
            return None
        return (self.completed + self.failed + self.other) / self.seconds

    @property
    def failed_per_s(self) -> float | None:
        return None if self.failed is None or self.seconds <= 0 else self.failed / self.seconds


class Flow(NamedTuple):
    """Arrivals and departures per second, over the last `over_s` seconds."""

    in_per_s: float
    out_per_s: float
    over_s: float


@dataclass(frozen=True, slots=True)
class QueueRate:
    """Tasks that became due in a queue (sent, retried, requeued), and tasks that left it, per second.

    The averages of RATES_OVER are the figures. The trend is that of the last MINUTE and MOMENT; None: not known.
    """

    in_per_s: float = 0.0
    out_per_s: float = 0.0
    minute: Flow | None = None
    moment: Flow | None = None


@dataclass(frozen=True, slots=True)
class Failures:
    """Tasks that FAILED with one code (None: without one) within LATELY, and in the `before_s` seconds before that."""

    error_code: str | None
    lately: int
    before: int
    before_s: float

    @property
    def usual(self) -> float | None:
        """The usual number of failures in a time as long as LATELY; None: too many failed to tell."""
        return self.before * LATELY.total_seconds() / self.before_s if self.before_s > 0 else None


async def task_series(conn: asyncpg.Connection, buckets: Buckets) -> tuple[TaskPoint, ...]:
    """One point per bucket, oldest first. The last ones, read alone, are the same as those of a longer series."""
    horizon, now = map(aware, await conn.fetchrow(statement(__name__, "view_horizon")))
    share = max(MOST_ENDED // (2 * buckets.count), 1)
    rows = by_bucket(
        await conn.fetch(
            statement(__name__, "view_task_series"), buckets.first, buckets.step, buckets.count, share, MOST_WAITING
        )
    )
    return tuple(
        _point(start, now, horizon, buckets.step, rows.get(number, ())) for number, start in enumerate(buckets.starts)
    )


def _point(
    start: datetime, now: datetime, horizon: datetime | None, step: timedelta, told: tuple[Any, ...]
) -> TaskPoint:
    end = min(start + step, now)
    seconds = max((end - start).total_seconds(), 0.0)
    if horizon is None or end <= horizon or not told:
        return TaskPoint(start, seconds)
    completed, failed, other, partly, wait_p50, wait_p95, run_p50, run_p95, waiting = told
    counts = (completed or 0.0, failed or 0.0, other or 0.0)
    return TaskPoint(start, seconds, *counts, partly, wait_p50, wait_p95, run_p50, run_p95, waiting or 0.0)


async def queue_rates(conn: asyncpg.Connection) -> Mapping[str, QueueRate]:
    """By queue; queues in which nothing arrived or ended are left out."""
    over_s, *shorter = (time.total_seconds() for time in (RATES_OVER, MINUTE, MOMENT))
    rows = await conn.fetch(statement(__name__, "view_queue_rates"), over_s, _MOST_FOR_RATES, *shorter, MOST_WAITING)
    return {name: _rate(*map(_flow, *counts)) for name, *counts in rows}


def _flow(arrived: int, left: int, over_s: float) -> Flow:
    return Flow(arrived / over_s, left / over_s, over_s)


def _rate(long: Flow, minute: Flow, moment: Flow) -> QueueRate:
    return QueueRate(long.in_per_s, long.out_per_s, minute, moment)


async def failures(conn: asyncpg.Connection) -> tuple[Failures, ...]:
    """By error code, the most frequent recent one first."""
    rows = await conn.fetch(
        statement(__name__, "view_failures"), LATELY.total_seconds(), BEFORE.total_seconds(), _MOST_FAILURES
    )
    return tuple(Failures(row["error_code"] or None, *tuple(row)[1:]) for row in rows)
