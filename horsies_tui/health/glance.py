"""The data that the verdict and the alerts are computed from: the cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from horsies.views import QueueRate
from horsies.views.cluster import busy_share, waiting
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
    """`report` is the recovery report; None: not read yet."""

    now: datetime
    workers: tuple[WorkerRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    rates: Mapping[str, QueueRate] = field(default_factory=dict)
    failures: tuple[Failures, ...] = ()
    clocks: tuple[Clock, ...] = ()
    report: Report | None = None
    growing_since: Mapping[str, datetime] = field(default_factory=dict)
    """By queue, of those that grow."""
    had_workers: bool = True
    """A worker has ever been here."""

    @property
    def awaits_first_worker(self) -> bool:
        """No worker has ever been here, and nothing has waited for long: the first one may be starting."""
        since = [row.oldest_due_at for row in self.queues if row.oldest_due_at is not None and row.paused_at is None]
        waited_s = (self.now - min(since, default=self.now)).total_seconds()
        return not self.had_workers and waited_s < FIRST_WORKER_WITHIN_S

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        """Workers that give signs of life, even late ones."""
        return tuple(row for row in self.workers if row.lives)

    @property
    def busy(self) -> float | None:
        """The share of the processes of living workers that run a task; None if no worker reports it."""
        return busy_share(self.workers)

    @property
    def waiting(self) -> Count:
        """Tasks that are due and not started, in all queues."""
        return waiting(self.queues)

    def name(self, worker_id: str) -> str:
        """The worker's name, as on the workers screen."""
        return next((row.name for row in self.workers if row.id == worker_id), name_of(worker_id))

    def rate(self, queue: str) -> QueueRate:
        return self.rates.get(queue, _NOTHING)

    def outlook(self, row: QueueRow) -> Outlook:
        return outlook(row, self.rate(row.name))
