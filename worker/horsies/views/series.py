"""Time series of the charts, and the time buckets in which they are read and cached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from horsies.store.statements import statement
from horsies.views.reader_session import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg


MOST_SNAPSHOTS: Final = 100
"""Maximum number of snapshots read per bucket: the average of 100 of 500 workers differs by a few per cent, and takes
a fifth of the time."""
_BUSY_OVER: Final = timedelta(seconds=10)
"""Time in which each live worker reports once or twice: snapshots come every 5 s, slightly delayed."""


@dataclass(frozen=True, slots=True)
class WorkerPoint:
    """The last report of a worker in one bucket, in column order; all None in a gap."""

    start: datetime
    at: datetime | None = None
    running: int | None = None
    claimed: int | None = None
    processes: int | None = None
    memory_mb: float | None = None
    children_memory_mb: float | None = None
    memory_percent: float | None = None
    cpu_percent: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterPoint:
    """The reports of all workers in the last ten seconds of one bucket; None if there is none: a gap.

    `workers` have reported, at least this many. `busy` is the share of their processes that ran a task.
    """

    start: datetime
    workers: int | None = None
    busy: float | None = None


async def worker_series(conn: asyncpg.Connection, worker_id: str, buckets: Buckets) -> tuple[WorkerPoint, ...]:
    """Read one point for each bucket, oldest first, with one index probe each."""
    told = by_bucket(await conn.fetch(statement(__name__, "view_worker_series"), worker_id, *buckets.parameters))
    return tuple(WorkerPoint(start, *told.get(number, ())) for number, start in enumerate(buckets.starts))


async def cluster_series(conn: asyncpg.Connection, buckets: Buckets) -> tuple[ClusterPoint, ...]:
    """Read one point for each bucket, oldest first; the last one up to the last whole ten seconds."""
    limits = (_BUSY_OVER.total_seconds(), MOST_SNAPSHOTS)
    told = by_bucket(await conn.fetch(statement(__name__, "view_cluster_series"), *buckets.parameters, *limits))
    return tuple(ClusterPoint(start, *told.get(number, ())) for number, start in enumerate(buckets.starts))


async def busy_share(conn: asyncpg.Connection, now: datetime) -> float | None:
    """Read the share of busy processes in the last whole ten seconds, the newest point of every `cluster_series`.

    All readers get the same until the next ten seconds have passed. None: no worker reported.
    """
    (point,) = await cluster_series(conn, Buckets(now, _BUSY_OVER, 1))
    return point.busy


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Buckets:
    """`count` ranges of length `step`, starting at `first`. Repeated reads use the same bounds."""

    first: datetime
    step: timedelta
    count: int

    @classmethod
    def until(cls, now: datetime, window: timedelta, step: timedelta) -> Buckets:
        """Return buckets that cover the window; the last one contains `now`."""
        count = -(-window // step)
        newest = _EPOCH + (now - _EPOCH) // step * step
        return cls(newest - (count - 1) * step, step, count)

    @property
    def parameters(self) -> tuple[datetime, timedelta, int]:
        """The parameters of a statement that reads these buckets."""
        return self.first, self.step, self.count

    @property
    def starts(self) -> tuple[datetime, ...]:
        return tuple(self.first + number * self.step for number in range(self.count))

    @property
    def end(self) -> datetime:
        """The end of the last bucket, possibly in the future."""
        return self.first + self.count * self.step

    def index(self, moment: datetime) -> int | None:
        """Return the number of the bucket that contains this moment, or None."""
        number = (moment - self.first) // self.step
        return number if 0 <= number < self.count else None

    def newest(self, count: int) -> Buckets:
        """Return the last `count` buckets."""
        count = min(count, self.count)
        return Buckets(self.first + (self.count - count) * self.step, self.step, count)


def by_bucket(rows: Sequence[Sequence[Any]]) -> dict[int, tuple[Any, ...]]:
    """Read the rows of a statement whose first column is the number of a bucket, counted from zero."""
    return {row[0]: tuple(map(decoded, tuple(row)[1:])) for row in rows}
