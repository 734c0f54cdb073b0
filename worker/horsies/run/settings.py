"""The settings of one worker from its command line, the times of its stop, and its identity."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


_MARKS: Final = (".dockerenv", "run/.containerenv")  # Docker creates the first one, Podman the second one
_RUNTIMES: Final = frozenset(("docker", "podman", "oci"))  # LXC, systemd-nspawn and flatpak set `container`, too
_IMAGE_STORES: Final = ("/containerd/", "/docker/", "/containers/storage/")
_LEAST_REST_S: Final = 2.0  # left after the grace by a container runtime: 1 s to stop tasks, 0.4 s to store
_RAISED_BY_S: Final = 5.0
_UNKNOWN_REST_S: Final = 40.0
_STOP_TASK_S: Final = 2.5
_STORE_S: Final = 30.0
_CLOSE_S: Final = 0.2  # of a worker that has nothing to store and a database that answers: 0.05 s
_EXIT_S: Final = 0.4  # 0.1 s to cut connections, up to 0.2 s until the interpreter has exited


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform that kills this process after a SIGTERM, after how many seconds, and the grace that fits."""

    kills: str
    after_s: float
    grace_s: float


KUBERNETES: Final = Platform("Kubernetes kills", 30, 25)
CONTAINER: Final = Platform("a container runtime kills", 10, 8)
HOST: Final = Platform("not in a container; systemd kills", 90, 25)  # 25: other service managers kill after 30 s


def detect(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Platform:
    """Detect the platform from the environment and the files below `root`."""
    if environ.get("KUBERNETES_SERVICE_HOST"):  # every pod has it
        return KUBERNETES
    in_container = environ.get("container") in _RUNTIMES or any((root / mark).exists() for mark in _MARKS)
    return CONTAINER if in_container or _is_an_image(root) else HOST


def _is_an_image(root: Path) -> bool:
    """Return whether `root` is mounted from a runtime's image store: containerd alone leaves no other mark."""
    try:
        mounts = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(store in mount for mount in mounts if mount.split()[4:5] == ["/"] for store in _IMAGE_STORES)


@dataclass(frozen=True, slots=True)
class StopTimes:
    """The latest ends of the parts of a stop, in seconds after the signal.

    `stop_task_s` counts from the moment when tasks are asked to stop: those that do not are killed then. Everything
    fits below the platform's limit, even if tasks do not stop and the database does not answer.
    """

    drain_s: float
    stop_task_s: float
    store_s: float
    end_s: float
    why: str

    @classmethod
    def of(cls, platform: Platform, grace_s: float | None) -> StopTimes:
        """Return the times for a configured grace, or for the one that fits the platform.

        A longer one is for a platform that is configured to wait longer. That limit is in no file or variable; 5 s more
        than the grace are enough while the database answers.
        """
        drain_s = platform.grace_s if grace_s is None else grace_s
        limit_s, why = platform.after_s, f"{platform.kills} {platform.after_s:g}s after SIGTERM"
        if limit_s - drain_s < _LEAST_REST_S:
            limit_s, why = drain_s + _UNKNOWN_REST_S, f"{why}, raise that to {drain_s + _RAISED_BY_S:g}s"
        stop_task_s = min(_STOP_TASK_S, (limit_s - drain_s) / 2)
        end_s = limit_s - _EXIT_S
        store_s = min(drain_s + stop_task_s + _STORE_S, end_s - _CLOSE_S)
        return cls(drain_s, stop_task_s, store_s, end_s, why)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of one worker; 0 for `max_claim_per_worker` means as many as its children can take.

    If None, `unknown_tasks` is the application's setting, and `shutdown_grace_ms` is derived from the platform.
    """

    locator: str
    processes: int = 1
    """Child processes; each runs one sync task at a time."""
    async_concurrency: int = 100
    """Maximum number of `async def` tasks that one child runs at once."""
    max_claim_batch: int = 0
    """Maximum number of tasks to claim at once; 0: all that fit."""
    max_claim_per_worker: int = 0
    """Maximum number of tasks to keep claimed and not started; 0: as many as fit."""
    max_tasks_per_child: int | None = None
    """Replace a child after this many tasks."""
    shutdown_grace_ms: int | None = None
    """Time for which running tasks may continue at a stop; None: what fits the platform."""
    unknown_tasks: Literal["leave", "fail"] | None = None
    """Leave or fail waiting tasks with unknown names; None: as AppConfig says."""
    app_version: str | None = None
    """The version of the application; None: as AppConfig says."""
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
    platform: Platform = field(default_factory=detect)

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
