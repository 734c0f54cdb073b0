"""Reads the data for the verdict and the alerts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from horsies.views import busy_share, failures, growing_since, queue_rates, queue_rows, worker_clocks, worker_rows
from horsies.views.workers import had_workers
from horsies_tui.health.glance import Glance
from horsies_tui.health.rates import Course

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies.views import Clock


class GlanceReader:
    """Reads one database. Workers store their clock once, so clocks are read only when new workers appear."""

    def __init__(self) -> None:
        self._clocks: tuple[Clock, ...] = ()
        self._known: frozenset[str] = frozenset()

    async def read(self, conn: Connection, now: datetime) -> Glance:
        """Read everything except the recovery report, in 25 ms with 500 workers and 40,000 waiting tasks."""
        workers = await worker_rows(conn)
        known = frozenset(row.id for row in workers)
        if known != self._known:
            self._clocks, self._known = await worker_clocks(conn), known
        glance = Glance(
            now=now,
            workers=workers,
            queues=await queue_rows(conn),
            rates=await queue_rates(conn),
            failures=await failures(conn),
            clocks=self._clocks,
            had_workers=bool(workers) or await had_workers(conn),
            busy=await busy_share(conn, now),
        )
        growing = [row.name for row in glance.queues if glance.outlook(row).course is Course.GROWS]
        return replace(glance, growing_since=await growing_since(conn, growing))
