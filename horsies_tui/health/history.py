"""The data of the charts: points by time bucket, added as they are read. Missing data are gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.views import Buckets, ChartMarks, ClusterPoint, TaskPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

_LEAST: Final = 2
"""Number of buckets that each read repeats, because the newest is incomplete, and the previous one may have been."""
NO_MARKS: Final = ChartMarks()
_ENOUGH: Final = 0.5
"""Share of an incomplete bucket that must have passed before its rates are shown."""


@dataclass(frozen=True, slots=True)
class Series:
    """One window of data: each tuple has a value per bucket, None for a gap."""

    buckets: Buckets
    ended: tuple[float | None, ...] = ()
    failed: tuple[float | None, ...] = ()
    waiting: tuple[float | None, ...] = ()
    wait_p50: tuple[float | None, ...] = ()
    wait_p95: tuple[float | None, ...] = ()
    run_p50: tuple[float | None, ...] = ()
    run_p95: tuple[float | None, ...] = ()
    busy: tuple[float | None, ...] = ()
    ended_lately: float | None = None
    failed_lately: float | None = None
    """Failures per second until now, over at least half a bucket, so that new failures appear without delay."""
    marks: ChartMarks = NO_MARKS
    about: bool = False
    """True if a bucket has more ended tasks than were read; its rates are then those of a part."""

    @property
    def began(self) -> datetime | None:
        """Return the start of the first bucket with data; None without data."""
        kinds = (self.ended, self.waiting, self.busy)
        known = (at for at, values in enumerate(zip(*kinds, strict=True)) if values != (None, None, None))
        first = next(known, None)
        return None if first is None else self.buckets.starts[first]


class History:
    """The history of one window. Points are immutable; a later read replaces them."""

    def __init__(self) -> None:
        self._tasks: dict[datetime, TaskPoint] = {}
        self._cluster: dict[datetime, ClusterPoint] = {}
        self._newest: datetime | None = None

    def missing(self, buckets: Buckets) -> Buckets:
        """Return the buckets to read: at first all, later only the last few."""
        if self._newest is None or self._newest < buckets.first:
            return buckets
        return buckets.newest(max((buckets.end - self._newest) // buckets.step, _LEAST))

    def put(self, buckets: Buckets, tasks: Iterable[TaskPoint], cluster: Iterable[ClusterPoint]) -> None:
        """Add points that were read, and drop those before the window."""
        self._tasks |= {point.start: point for point in tasks}
        self._cluster |= {point.start: point for point in cluster}
        self._newest = buckets.end - buckets.step
        self._tasks = {start: point for start, point in self._tasks.items() if start >= buckets.first}
        self._cluster = {start: point for start, point in self._cluster.items() if start >= buckets.first}

    def series(self, buckets: Buckets, marks: ChartMarks = NO_MARKS) -> Series:
        """Return the data of these buckets. Buckets without data, or during an outage, are gaps."""
        step_s = buckets.step.total_seconds()
        dark = {buckets.starts[number] for number in marks.dark}
        starts = [(start, start not in dark) for start in buckets.starts]
        tasks = [
            self._tasks.get(start, TaskPoint(start, 0.0)) if lit else TaskPoint(start, 0.0) for start, lit in starts
        ]
        cluster = [
            self._cluster.get(start, ClusterPoint(start)) if lit else ClusterPoint(start) for start, lit in starts
        ]

        def rates(of: Callable[[TaskPoint], float | None]) -> tuple[float | None, ...]:
            return tuple(of(point) if point.seconds >= _ENOUGH * step_s else None for point in tasks)

        return Series(
            buckets,
            ended=rates(lambda point: point.ended_per_s),
            failed=rates(lambda point: point.failed_per_s),
            waiting=tuple(point.waiting for point in tasks),
            wait_p50=tuple(point.wait_p50 for point in tasks),
            wait_p95=tuple(point.wait_p95 for point in tasks),
            run_p50=tuple(point.run_p50 for point in tasks),
            run_p95=tuple(point.run_p95 for point in tasks),
            busy=tuple(point.busy for point in cluster),
            ended_lately=_lately(tasks, _ENOUGH * step_s, lambda point: point.ended_per_s),
            failed_lately=_lately(tasks, _ENOUGH * step_s, lambda point: point.failed_per_s),
            marks=marks,
            about=any(point.partly for point in tasks),
        )


def _lately(tasks: list[TaskPoint], least_s: float, of: Callable[[TaskPoint], float | None]) -> float | None:
    """Return the rate of the newest bucket, or of the last two if too little of it has passed."""
    newest = tasks[-1:] if tasks[-1].seconds >= least_s else tasks[-_LEAST:]
    known = [(rate, point.seconds) for point in newest if (rate := of(point)) is not None]
    passed_s = sum(seconds for _, seconds in known)
    return sum(rate * seconds for rate, seconds in known) / passed_s if passed_s >= least_s else None


def last_known(values: tuple[float | None, ...]) -> float | None:
    """Return the newest value of the last two buckets; older values do not describe the present."""
    return next((value for value in reversed(values[-_LEAST:]) if value is not None), None)
