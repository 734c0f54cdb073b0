"""A row about this worker every five seconds: its tasks, and the resources it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from horsies import __version__
from horsies.run.loops import Wake
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.memory import MB, children_memory, container_memory
from horsies.store.worker_states import STOPPED, WorkerSnapshot, sample_queues, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from horsies.config.app import AppConfig
    from horsies.run.settings import Identity, WorkerSettings
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

# 500 names are 10 kB: in each row, one worker would write 170 MB of them a day. Readers look back some minutes.
_NAMES_EVERY = 12


class Snapshots:
    """The console decides by these rows whether a worker is alive."""

    name = "snapshot"
    interval_s = 5.0
    step_timeout_s = 20.0

    def __init__(
        self,
        config: AppConfig,
        settings: WorkerSettings,
        identity: Identity,
        dedicated: DedicatedConnection,
        flow: TaskFlow,
        claimer: Claimer,
        started_at: datetime,
        task_names: Iterable[str],
    ) -> None:
        self.wake = Wake()
        self._config = config
        self._settings = settings
        self._identity = identity
        self.dedicated = dedicated
        self._flow = flow
        self._claimer = claimer
        self._started_at = started_at
        self._task_names = sorted(task_names)
        self._written = 0
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only sets the start of the next measurement
        self.memory_mb = 0.0
        self.is_last = False
        """The next one says that the worker has stopped."""

    def learn(self, task_names: Iterable[str]) -> None:
        """The application defines other tasks than before; the next row names them."""
        self._task_names = sorted(task_names)
        self._written = 0

    async def step(self) -> None:
        snapshot = self._take()
        async with self.dedicated.acquire() as connection:
            await write_snapshot(connection, snapshot)
            self._written += 1
            if not self.is_last:
                await sample_queues(connection)

    def _take(self) -> WorkerSnapshot:
        config, settings = self._config, self._settings
        served = self._claimer.queues
        queues = [queue for queue in config.custom_queues or () if queue.name in served]
        memory_mb = self._process.memory_info().rss / MB
        children = children_memory(child.pid for child in self._flow.children)
        container = container_memory()
        self.memory_mb = memory_mb + children.total_mb
        return WorkerSnapshot(
            worker_id=self._identity.worker_id,
            hostname=self._identity.hostname,
            pid=self._identity.pid,
            processes=STOPPED if self.is_last else settings.processes,
            max_claim_batch=settings.max_claim_batch or settings.processes + config.prefetch_buffer,
            max_claim_per_worker=settings.max_claim_per_worker or settings.processes + config.prefetch_buffer,
            cluster_wide_cap=config.cluster_wide_cap,
            queues=served,
            queue_priorities={queue.name: queue.priority for queue in queues} if queues else None,
            queue_max_concurrency={queue.name: queue.max_concurrency for queue in queues} if queues else None,
            recovery_config=config.recovery.model_dump(),
            tasks_running=self._flow.tasks.count(Stage.RUNNING),
            tasks_claimed=self._flow.tasks.count(Stage.CLAIMED),
            memory_usage_mb=memory_mb,
            children_memory_mb=children.total_mb,
            memory_percent=self._process.memory_percent(),
            cpu_percent=self._process.cpu_percent(),
            worker_started_at=self._started_at,
            task_names=None if self._written % _NAMES_EVERY else self._task_names,
            horsies_version=__version__,
            draining=self._claimer.draining,
            app_version=settings.app_version or config.version,
            container_memory_mb=None if container is None else container.used_mb,
            container_limit_mb=None if container is None else container.limit_mb,
            largest_child_mb=children.largest_mb,
            largest_child_pid=children.largest_pid,
            child_limit_mb=children.limit_mb,
        )
