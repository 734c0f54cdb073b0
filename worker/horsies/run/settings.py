"""The settings of one worker from its command line, and its identity."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, field
from typing import Literal

from horsies.run.stop_times import Platform, StopTimes


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of one worker; 0 for `max_claim_per_worker` means as many as its children can take.

    If None, `unknown_tasks` is the application's setting, and `shutdown_grace_ms` is derived from the platform.
    """

    locator: str
    processes: int = 1
    """Child processes; each runs one sync task at a time."""
    async_concurrency: int = 100
    """How many `async def` tasks one child runs at once."""
    max_claim_batch: int = 0
    """The most tasks to claim at once; 0: all that fit."""
    max_claim_per_worker: int = 0
    """The most tasks to keep claimed and not started; 0: as many as fit."""
    max_tasks_per_child: int | None = None
    """Replace a child after this many tasks."""
    shutdown_grace_ms: int | None = None
    """How long running tasks may continue; None: what fits the platform."""
    unknown_tasks: Literal["leave", "fail"] | None = None
    """What becomes of waiting tasks with unknown names; None: as AppConfig says."""
    queues: tuple[str, ...] = ()
    """Serve only these queues of the application; none named: all of them."""
    except_queues: tuple[str, ...] = ()
    """Serve all queues but these."""
    scheduler: bool = False
    """Also send the tasks of the schedules that come due."""
    metrics_port: int | None = None
    """Answer scrapes and probes there; 0 for any free port, None for none."""
    metrics_host: str = "127.0.0.1"
    """The address to listen at."""
    reload: bool = False
    """Replace the children when files of the project change."""
    platform: Platform = field(default_factory=Platform.here)

    @property
    def stop_times(self) -> StopTimes:
        grace_ms = self.shutdown_grace_ms
        return StopTimes.of(self.platform, None if grace_ms is None else grace_ms / 1000)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity for writes: each start of a worker has its own, because pids and host names are reused."""

    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def worker_id(self) -> str:
        return f"{self.hostname}-{self.pid}-{self.nonce}"
