"""The rows of a worker about itself, every five seconds, and about the progress of its runs, every second."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from horsies import __version__
from horsies.lifecycle.claim_token import store_progress
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.worker_states import STOPPED, WorkerSnapshot, sample_queues, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


# 500 names are 10 kB: in each row, one worker would write 170 MB of them a day. Readers search some minutes of rows.
_NAMES_EVERY = 12


class Snapshots(WorkerLoop):
    """The console decides by these rows whether a worker is alive."""

    name = "snapshot"
    interval_s = 5.0

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow, claimer: Claimer, started_at: datetime) -> None:
        super().__init__(dedicated, flow)
        self._config = flow.app.config
        self._settings = flow.settings
        self._identity = flow.identity
        self._claimer = claimer
        self._started_at = started_at
        self._task_names = sorted(flow.app.tasks)
        self._written = 0
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only sets the start of the next measurement
        self.memory_mb = 0.0
        self.is_last = False
        """The next one says that the worker has stopped."""

    def learn(self, task_names: Iterable[str]) -> None:
        """Name these tasks in the next row: the application defines others than before."""
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


_MOST_AT_ONCE: Final = 1_000
_STORE_TIMEOUT_S: Final = 2.0
"""A thousand reports take 6 ms."""


class ProgressWriter(WorkerLoop):
    """The loop that stores reports; not with the heartbeats, which come twice a minute and must not be held up."""

    name = "progress"
    interval_s = 1.0

    async def step(self) -> None:
        for child in self._flow.children:
            child.read_progress()
        # The table of reports may be locked. No loop that shares this connection has to wait for that, and no claim.
        with suppress(TimeoutError), self._flow.progress.to_store() as reports:
            for begin in range(0, len(reports), _MOST_AT_ONCE):
                async with asyncio.timeout(_STORE_TIMEOUT_S), self.dedicated.acquire() as connection:
                    await store_progress(connection, self._worker_id, reports[begin : begin + _MOST_AT_ONCE])


MB: Final = 1024 * 1024
_NO_LIMIT: Final = 1 << 60
"""Version 1 of control groups stores a number near 2^63 where there is no limit."""


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    used_mb: float
    limit_mb: float


@dataclass(frozen=True, slots=True)
class ChildrenMemory:
    """The memory of all children together, and of the one that is nearest to its limit, or uses most."""

    total_mb: float = 0.0
    largest_mb: float | None = None
    largest_pid: int | None = None
    limit_mb: float | None = None


_VERSION_1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2: Final = ("memory.max", "memory.current", "inactive_file")
"""The files of a control group that have its limit and its use, and the field of memory.stat with the cache."""


def container_memory(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> ContainerMemory | None:
    """Return the memory of the control group that has least left, of those that this process is in.

    None where none of them has a limit, and elsewhere than on Linux. A group above may have the lower limit: that of a
    pod, or of a service.
    """
    found = []
    with suppress(OSError):
        for group, (limit_file, used_file, cache_field) in _groups(
            membership.read_text(encoding="utf-8").splitlines(), mount
        ):
            with suppress(OSError, ValueError):  # not mounted here, or "max"
                limit = int((group / limit_file).read_text(encoding="ascii"))
                used = int((group / used_file).read_text(encoding="ascii")) - _cache(group, cache_field)
                if 0 < limit < _NO_LIMIT:
                    found.append(ContainerMemory(used / MB, limit / MB))
    return min(found, key=lambda one: one.limit_mb - one.used_mb, default=None)


def _groups(lines: Iterable[str], mount: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the group of this process and all above it; in a container only the outermost may be mounted."""
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, files = (mount / "memory", _VERSION_1) if controllers else (mount, _VERSION_2)
        group = root / path.lstrip("/")
        yield from ((each, files) for each in (group, *group.parents) if each.is_relative_to(root))


def _cache(group: Path, field: str) -> int:
    """Return the file cache that the kernel reclaims before it kills a process."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        name, _, amount = line.partition(" ")
        if name == field:
            return int(amount)
    return 0


def children_memory(pids: Iterable[int]) -> ChildrenMemory:
    """Return what these processes use, without those that have exited."""
    total = 0.0
    shares: list[tuple[float, float, int, float | None]] = []
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            used, limit_mb = process.memory_info(), _limit_mb(process)
            total += used.rss / MB
            counted_mb = used.rss / MB if limit_mb is None else used.vms / MB
            shares.append((counted_mb / limit_mb if limit_mb else 0.0, counted_mb, pid, limit_mb))
    if not shares:
        return ChildrenMemory(total)
    _, largest_mb, pid, limit_mb = max(shares, key=lambda one: one[:3])
    return ChildrenMemory(total, largest_mb, pid, limit_mb)


def _limit_mb(process: psutil.Process) -> float | None:
    """Return the limit of its address space (`ulimit -v`), beyond which its allocations fail."""
    if sys.platform != "linux":
        return None
    limit = process.rlimit(psutil.RLIMIT_AS)[0]
    return limit / MB if 0 < limit < _NO_LIMIT else None
