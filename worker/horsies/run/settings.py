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
    async_concurrency: int = 100
    max_claim_batch: int = 0
    max_claim_per_worker: int = 0
    max_tasks_per_child: int | None = None
    shutdown_grace_ms: int | None = None
    unknown_tasks: Literal["leave", "fail"] | None = None
    queues: tuple[str, ...] = ()
    """Serve only these queues of the application; none named: all of them."""
    except_queues: tuple[str, ...] = ()
    """Serve all queues but these."""
    scheduler: bool = False
    """Also send the tasks of the schedules that come due."""
    metrics_port: int | None = None
    """Answer scrapes and probes there; 0 for any free port, None for none."""
    metrics_host: str = "127.0.0.1"
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
