"""The state of the cluster: its queues, the figures of `horsies status` and the overview, and those of the exporter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain.damage import is_whole, json_map, texts
from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.reader_session import aware, decoded, tables
from horsies.views.searching import table_size
from horsies.views.workers import GONE_AFTER_S, Order, drain_orders, worker_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.views.workers import WorkerRow


_WINDOW: Final = timedelta(minutes=5)
_MAX_ENDED: Final = 20_000
_MAX_INTERRUPTED: Final = 10_000
_MAX_WORKFLOWS: Final = 20_000
OVERDUE_AFTER_S: Final = 60.0
"""Seconds after which a slot is overdue: schedulers check every second."""
_SCHEDULER_GONE_AFTER_S: Final = 30.0
"""Three of the intervals at which a scheduler renews its row."""
MOST_WAITING: Final = 50_000
"""Maximum number of waiting tasks that one refresh counts, an equal share for each queue: 5 ms."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue that has live tasks, a live worker, or a pause."""

    name: str
    due: Count
    later: Count
    oldest_due_at: datetime | None
    claimed: int
    running: int
    cap: int | None
    """Its max_concurrency, by the newest snapshot of a worker that serves it."""
    priority: int | None
    workers: int
    """Number of live workers that serve it."""
    draining: int
    """Number of these workers that are draining."""
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None

    @property
    def claiming(self) -> int:
        return self.workers - self.draining


class _Service(NamedTuple):
    """The workers of a queue, and its settings in the newest snapshot of them."""

    cap: int | None = None
    priority: int | None = None
    workers: int = 0
    draining: int = 0


async def pauses(conn: asyncpg.Connection) -> dict[str, Order]:
    """Read the paused queues by name."""
    return {row[0]: Order(*row[1:]) for row in await conn.fetch(statement(__name__, "view_pauses"))}


async def queue_rows(conn: asyncpg.Connection) -> tuple[QueueRow, ...]:
    """Read the queues, ordered by name."""
    here = await tables(conn)
    orders = await drain_orders(conn) if here.worker_orders else {}
    paused = await pauses(conn) if here.queue_state else {}
    services = _services(await conn.fetch(statement(__name__, "view_consumers"), GONE_AFTER_S, [*orders]))
    loads = {row["queue_name"]: row for row in await conn.fetch(statement(__name__, "view_queues"), MOST_WAITING)}
    return tuple(
        QueueRow(name, *_load(loads.get(name)), *services.get(name, _Service()), *paused.get(name, (None, None, None)))
        for name in sorted({*paused, *services, *loads})
    )


def _load(row: Any) -> tuple[Count, Count, datetime | None, int, int]:
    if row is None:
        return Count(0), Count(0), None, 0, 0
    due, later = (Count(row[name], row["at_least"]) for name in ("due", "later"))
    return due, later, aware(row["oldest_due_at"]), row["claimed"], row["running"]


def _services(consumers: Sequence[Mapping[str, Any]]) -> dict[str, _Service]:
    """Return the workers of each queue. Settings of two deployments may differ: the latest report is used."""
    services: dict[str, _Service] = {}
    for row in sorted(consumers, key=lambda row: aware(row["snapshot_at"])):
        caps, priorities = (
            json_map(row[name], values=is_whole) for name in ("queue_max_concurrency", "queue_priorities")
        )
        for name in set(texts(row["queues"])):
            _, _, workers, draining = services.get(name, _Service())
            services[name] = _Service(caps.get(name), priorities.get(name), workers + 1, draining + row["draining"])
    return services


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
    text, limits = statement(__name__, "view_schedule_totals"), (OVERDUE_AFTER_S, _SCHEDULER_GONE_AFTER_S)
    totals = await conn.fetchrow(text, *limits) if schedules else None
    return Exported(
        status=await cluster_status(conn),
        workflows={row["status"]: Count(row["number"], partly) for row in rows},
        sweeps={row["rule"]: max(decoded(row["age_s"]), 0.0) for row in ages},
        schedules=ScheduleTotals(*map(decoded, totals)) if totals else None,
    )
