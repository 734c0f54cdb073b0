"""The state of the cluster at one moment, from which the verdict and the alerts are computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from horsies.views import QueueRate
from horsies.views.cluster import waiting
from horsies.views.workers import FIRST_WORKER_WITHIN_S, name_of
from horsies_tui.health.rates import outlook

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.findings.diagnose import Report
    from horsies.views import Clock, Count, Failures, QueueRow, WorkerRow
    from horsies_tui.health.rates import Outlook

_NOTHING = QueueRate()


@dataclass(frozen=True, slots=True)
class Glance:
    """The state of the cluster. `report` is the recovery report; None before it is read."""

    now: datetime
    workers: tuple[WorkerRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    rates: Mapping[str, QueueRate] = field(default_factory=dict)
    failures: tuple[Failures, ...] = ()
    clocks: tuple[Clock, ...] = ()
    report: Report | None = None
    growing_since: Mapping[str, datetime] = field(default_factory=dict)
    """Start of the growth of each growing queue."""
    had_workers: bool = True
    """True if the database has ever had a worker."""
    busy: float | None = None
    """Share of busy processes in the last whole ten seconds; None if no worker reported then."""

    @property
    def awaits_first_worker(self) -> bool:
        """True if there has never been a worker and no task has waited long, as while the first worker starts."""
        since = [row.oldest_due_at for row in self.queues if row.oldest_due_at is not None and row.paused_at is None]
        waited_s = (self.now - min(since, default=self.now)).total_seconds()
        return not self.had_workers and waited_s < FIRST_WORKER_WITHIN_S

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        """Return the workers that are alive, including late ones."""
        return tuple(row for row in self.workers if row.lives)

    @property
    def waiting(self) -> Count:
        """Return the number of due tasks in all queues that have not started."""
        return waiting(self.queues)

    def name(self, worker_id: str) -> str:
        """Return the worker's name, as on the workers screen."""
        return next((row.name for row in self.workers if row.id == worker_id), name_of(worker_id))

    def rate(self, queue: str) -> QueueRate:
        return self.rates.get(queue, _NOTHING)

    def outlook(self, row: QueueRow) -> Outlook:
        return outlook(row, self.rate(row.name))
