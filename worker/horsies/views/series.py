"""Reports of workers over time: of one of them, or of all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.buckets import by_bucket

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.views.buckets import Buckets

MOST_SNAPSHOTS: Final = 100
"""Read of all workers in one bucket: the average of a hundred of 500 differs by some per cent, and is read in a
fifth."""
_ROUND_S: Final = 6.0
"""In this time each live worker reports once: snapshots come every 5 s, and a little later each time."""


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
    """The reports of all workers at the end of one bucket; None if there is none: a gap.

    `workers` have reported, at least this many. `busy` is the share of their processes that ran a task.
    """

    start: datetime
    workers: int | None = None
    busy: float | None = None


async def worker_series(conn: asyncpg.Connection, worker_id: str, buckets: Buckets) -> tuple[WorkerPoint, ...]:
    """One point for each bucket, oldest first, by one index probe each."""
    told = by_bucket(
        await conn.fetch(
            statement(__name__, "view_worker_series"), worker_id, buckets.first, buckets.step, buckets.count
        )
    )
    return tuple(WorkerPoint(start, *told.get(number, ())) for number, start in enumerate(buckets.starts))


async def cluster_series(conn: asyncpg.Connection, buckets: Buckets) -> tuple[ClusterPoint, ...]:
    """One point for each bucket, oldest first; the last one up to now."""
    told = by_bucket(
        await conn.fetch(
            statement(__name__, "view_cluster_series"),
            buckets.first,
            buckets.step,
            buckets.count,
            _ROUND_S,
            MOST_SNAPSHOTS,
        )
    )
    return tuple(ClusterPoint(start, *told.get(number, ())) for number, start in enumerate(buckets.starts))
