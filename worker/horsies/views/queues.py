"""The queues: waiting and running tasks, caps and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.damage import is_whole, json_map, texts
from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.reader_session import aware, tables
from horsies.views.workers import GONE_AFTER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

MOST_WAITING: Final = 50_000
"""Maximum number of waiting tasks that one refresh counts, an equal share for each queue: 5 ms."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue that has live tasks, a live worker, or a pause. horsies.views.cluster defines each number."""

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
        """The number of workers that claim its tasks."""
        return self.workers - self.draining


@dataclass(frozen=True, slots=True)
class _Service:
    """The workers of a queue."""

    workers: int
    draining: int
    cap: int | None
    priority: int | None


_UNSERVED = _Service(0, 0, None, None)


async def queue_rows(conn: asyncpg.Connection) -> tuple[QueueRow, ...]:
    """Read the queues, ordered by name."""
    pauses: dict[str, tuple[Any, ...]] = {}
    ordered: list[str] = []
    here = await tables(conn)
    if here.worker_orders:
        ordered = [row["worker_id"] for row in await conn.fetch(statement("horsies.views.workers", "view_orders"))]
    if here.queue_state:
        pauses = {row[0]: tuple(row[1:]) for row in await conn.fetch(statement(__name__, "view_pauses"))}
    services = _services(await conn.fetch(statement(__name__, "view_consumers"), GONE_AFTER_S, ordered))
    loads = {row["queue_name"]: row for row in await conn.fetch(statement(__name__, "view_queues"), MOST_WAITING)}
    names = sorted({*pauses, *services, *loads})
    return tuple(_row(name, loads.get(name), services.get(name, _UNSERVED), pauses.get(name)) for name in names)


def _row(name: str, load: Any, service: _Service, pause: tuple[Any, ...] | None) -> QueueRow:
    partly = load is not None and load["at_least"]
    return QueueRow(
        name=name,
        due=Count(load["due"] if load else 0, partly),
        later=Count(load["later"] if load else 0, partly),
        oldest_due_at=aware(load["oldest_due_at"]) if load else None,
        claimed=load["claimed"] if load else 0,
        running=load["running"] if load else 0,
        cap=service.cap,
        priority=service.priority,
        workers=service.workers,
        draining=service.draining,
        **dict(zip(("paused_at", "paused_by", "paused_reason"), pause or (None,) * 3, strict=True)),
    )


def _services(consumers: Sequence[Mapping[str, Any]]) -> dict[str, _Service]:
    """Return the workers of each queue. Settings of two deployments may differ: the latest report is used."""
    services: dict[str, _Service] = {}
    for row in sorted(consumers, key=lambda row: aware(row["snapshot_at"])):
        caps, priorities = (
            json_map(row[name], values=is_whole) for name in ("queue_max_concurrency", "queue_priorities")
        )
        for name in set(texts(row["queues"])):
            before = services.get(name, _UNSERVED)
            draining = before.draining + row["draining"]
            services[name] = _Service(before.workers + 1, draining, caps.get(name), priorities.get(name))
    return services
