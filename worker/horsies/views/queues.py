"""The queues: waiting and running tasks, caps and pauses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain.damage import is_whole, json_map, texts
from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.reader_session import aware, tables
from horsies.views.workers import GONE_AFTER_S, Order, drain_orders

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
