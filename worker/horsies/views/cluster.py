"""The state of the cluster, for `horsies status` and the console's first screen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.queues import queue_rows
from horsies.views.reader_session import aware, decoded, tables
from horsies.views.searching import table_size
from horsies.views.workers import worker_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.views.queues import QueueRow
    from horsies.views.workers import WorkerRow


_WINDOW: Final = timedelta(minutes=5)
_MAX_ENDED: Final = 20_000
_MAX_INTERRUPTED: Final = 10_000
_MAX_WORKFLOWS: Final = 20_000
OVERDUE_AFTER_S: Final = 60.0
"""Seconds after which a slot is overdue: schedulers check every second."""
_SCHEDULER_GONE_AFTER_S: Final = 30.0
"""Three of the intervals at which a scheduler renews its row."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """`completed`, `failed` and `other` (cancelled, expired) are tasks that ended within the window before now.

    `counted_since`: tasks that ended earlier are not counted; None if the whole window is counted.
    """

    now: datetime
    workers: tuple[WorkerRow, ...]
    queues: tuple[QueueRow, ...]
    window: timedelta
    completed: Count
    failed: Count
    other: Count
    counted_since: datetime | None
    interrupted: Count
    """Number of tasks that were stopped at a shutdown and need a decision."""
    in_table: int | None
    """Estimated number of tasks; None if the table was never vacuumed or analyzed."""


async def cluster_status(conn: asyncpg.Connection) -> ClusterStatus:
    lately = await conn.fetch(statement(__name__, "view_ended_lately"), _WINDOW, _MAX_ENDED)
    ended = {row["status"]: row["number"] for row in lately}
    partly = sum(ended.values()) == _MAX_ENDED
    interrupted = await conn.fetchval(statement(__name__, "view_interrupted_count"), _MAX_INTERRUPTED)
    return ClusterStatus(
        now=(await tables(conn)).now,
        workers=await worker_rows(conn),
        queues=await queue_rows(conn),
        window=_WINDOW,
        completed=Count(ended.get("COMPLETED", 0), partly),
        failed=Count(ended.get("FAILED", 0), partly),
        other=Count(ended.get("CANCELLED", 0) + ended.get("EXPIRED", 0), partly),
        counted_since=aware(min(row["since"] for row in lately)) if partly else None,
        interrupted=Count(interrupted, interrupted == _MAX_INTERRUPTED),
        in_table=await table_size(conn, "horsies_tasks"),
    )


def total(counts: Iterable[Count]) -> Count:
    counts = tuple(counts)
    return Count(sum(count.number for count in counts), any(count.at_least for count in counts))


def waiting(queues: Iterable[QueueRow]) -> Count:
    """Return the number of tasks that are due and have not started."""
    return total(Count(row.due.number + row.claimed, row.due.at_least) for row in queues)


@dataclass(frozen=True, slots=True)
class ScheduleTotals:
    """Totals of the schedules, in the column order of the statement. A schedule without a scheduler is not overdue."""

    schedules: int
    paused: int
    overdue: int
    overdue_s: float
    """Seconds by which the most overdue schedule is late."""
    schedulers: int
    """Number of live workers."""


@dataclass(frozen=True, slots=True)
class Exported:
    status: ClusterStatus
    workflows: Mapping[str, Count]
    """Number of workflows that have not ended, by status."""
    sweeps: Mapping[str, float]
    """Seconds since a sweep of each rule began; empty in a database of upstream."""
    schedules: ScheduleTotals | None
    """Totals of schedules; None without our tables of schedules."""


async def exported(conn: asyncpg.Connection) -> Exported:
    """Read the figures of the exporter, in a session with READER_SETTINGS."""
    sweeps, schedules = await conn.fetchrow(statement(__name__, "view_exported_tables"))
    rows = await conn.fetch(statement(__name__, "view_live_workflows"), _MAX_WORKFLOWS)
    partly = sum(row["number"] for row in rows) >= _MAX_WORKFLOWS
    ages = await conn.fetch(statement(__name__, "view_sweep_ages")) if sweeps else []
    return Exported(
        status=await cluster_status(conn),
        workflows={row["status"]: Count(row["number"], partly) for row in rows},
        sweeps={row["rule"]: max(decoded(row["age_s"]), 0.0) for row in ages},
        schedules=await _schedules(conn) if schedules else None,
    )


async def _schedules(conn: asyncpg.Connection) -> ScheduleTotals:
    row = await conn.fetchrow(statement(__name__, "view_schedule_totals"), OVERDUE_AFTER_S, _SCHEDULER_GONE_AFTER_S)
    return ScheduleTotals(*map(decoded, row))
