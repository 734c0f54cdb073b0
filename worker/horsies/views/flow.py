"""Tasks over time: how many ended in which status, how long they waited and ran, how many wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.store.statements import statement
from horsies.views.cluster import MOST_WAITING
from horsies.views.reader_session import aware, tables
from horsies.views.series import by_bucket

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

    from horsies.views.series import Buckets

_SLICES: Final = 4
MOST_OF_A_SLICE: Final = 250
"""Maximum number of ended tasks, and attempts, read per quarter of a bucket. It is the same for every read, so that
points from a read of two buckets are comparable with points from a read of 60."""
_MAX_COUNTED: Final = 5_000
"""Maximum number of attempts counted per quarter, if there are more than are read."""
RATES_OVER: Final = timedelta(minutes=5)
"""Time over which rates of queues are measured; shorter if more than 10 000 tasks ended in it."""
MINUTE: Final = timedelta(minutes=1)
MOMENT: Final = timedelta(seconds=5)
"""Shorter times for the trend: rates over five minutes hide the end of a burst or a stop of workers."""
LATELY: Final = timedelta(minutes=10)
BEFORE: Final = timedelta(hours=2)
"""Time before the recent failures that they are compared with."""
_MAX_FOR_RATES: Final = 10_000
_MAX_FAILURES: Final = 10_000
RECENTLY: Final = timedelta(minutes=2)
"""Time without failures after which a surge has ended."""
_FAILURE_SLICES: Final = 20
_MAX_LATELY: Final = 250
_MAX_BEFORE: Final = 100
"""Maximum number of attempts read per slice: for LATELY 8 a second; fewer for BEFORE, which shows only the norm."""


@dataclass(frozen=True, slots=True)
class TaskPoint:
    """One bucket, in the column order of the statement. All numbers None: unknown, or no task existed yet: a gap.

    `completed` and `failed` are attempts, retried ones as well; `other` tasks were cancelled, expired, failed by hand.
    With `partly` they are extrapolated from the first ones of each slice. Waits and runs are those that ended in it, in
    seconds: the median and the 95th percentile. `waiting` tasks were due and had not begun at its end.
    """

    start: datetime
    seconds: float
    """The part of the bucket that has passed; the newest one is not over."""
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
    """Failed attempts with one code (None: without one) within LATELY, and in the `before_s` seconds before that.

    What an operator has failed is not counted. An attempt counts whether it is retried or not.
    """

    error_code: str | None
    lately: int
    before: int
    before_s: float
    recent: int | None = None
    """Number of failures within RECENTLY; None if not known."""
    retried: int = 0
    """Number of failures of LATELY after which the task runs again."""
    since: datetime | None = None
    """Time of the first failure of LATELY."""

    @property
    def is_over(self) -> bool:
        """True if recent failures are so rare that the surge has ended."""
        share = RECENTLY / LATELY
        return self.recent is not None and self.recent < 0.2 * share * self.lately

    @property
    def usual(self) -> float | None:
        """The usual number of failures in a time as long as LATELY; None if there were too many to read."""
        return self.before * LATELY.total_seconds() / self.before_s if self.before_s > 0 else None


async def task_series(conn: asyncpg.Connection, buckets: Buckets) -> tuple[TaskPoint, ...]:
    """Read one point per bucket, oldest first. A shorter series has the same last points as a longer one."""
    horizon, now = map(aware, await conn.fetchrow(statement(__name__, "view_horizon")))
    limits = (MOST_OF_A_SLICE, MOST_WAITING, _SLICES, _MAX_COUNTED)
    rows = by_bucket(await conn.fetch(statement(__name__, "view_task_series"), *buckets.parameters, *limits))
    samples = {}
    if (await tables(conn)).outages:
        samples = dict(await conn.fetch(statement(__name__, "view_queue_samples"), *buckets.parameters))
    return tuple(
        _point(start, now, horizon, buckets.step, rows.get(number, ()), samples.get(number))
        for number, start in enumerate(buckets.starts)
    )


def _point(
    start: datetime,
    now: datetime,
    horizon: datetime | None,
    step: timedelta,
    told: tuple[Any, ...],
    sampled: int | None,
) -> TaskPoint:
    """Return the point of a bucket. Without a sample, the waiting tasks are computed from the current rows."""
    end = min(start + step, now)
    seconds = max((end - start).total_seconds(), 0.0)
    if horizon is None or end <= horizon or not told:
        return TaskPoint(start, seconds)
    completed, failed, other, partly, wait_p50, wait_p95, run_p50, run_p95, waiting = told
    counts = (completed or 0.0, failed or 0.0, other or 0.0)
    waits = waiting or 0.0 if sampled is None else float(sampled)
    return TaskPoint(start, seconds, *counts, partly, wait_p50, wait_p95, run_p50, run_p95, waits)


async def growing_since(conn: asyncpg.Connection, queues: list[str]) -> Mapping[str, datetime]:
    """Read since when these queues have grown, at most an hour; queues without samples are omitted."""
    if not queues or not (await tables(conn)).outages:
        return {}
    return dict(await conn.fetch(statement(__name__, "view_growth"), queues))


async def queue_rates(conn: asyncpg.Connection) -> Mapping[str, QueueRate]:
    """Read the rates by queue, without queues in which no task arrived or ended."""
    over_s, *shorter = (time.total_seconds() for time in (RATES_OVER, MINUTE, MOMENT))
    rows = await conn.fetch(statement(__name__, "view_queue_rates"), over_s, _MAX_FOR_RATES, *shorter, MOST_WAITING)
    rates = {}
    for name, *counts in rows:
        long, *trend = (Flow(arrived / s, left / s, s) for arrived, left, s in zip(*counts, strict=True))
        rates[name] = QueueRate(long.in_per_s, long.out_per_s, *trend)
    return rates


async def failures(conn: asyncpg.Connection) -> tuple[Failures, ...]:
    """Read the failures by error code, the most frequent recent one first."""
    text = statement(__name__, "view_failures")
    times = [time.total_seconds() for time in (LATELY, BEFORE, RECENTLY)]
    sizes = (_FAILURE_SLICES, _MAX_LATELY, _MAX_BEFORE)
    rows = await conn.fetch(text, *times[:2], _MAX_FAILURES, times[2], *sizes)
    return tuple(Failures(row["error_code"] or None, *tuple(row)[1:]) for row in rows)
