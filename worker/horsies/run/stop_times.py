"""The times of a stop: what kills this process, how long after SIGTERM, and what is done until then."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
_GOODBYE_S: Final = 0.2  # of a worker that has nothing to store and a database that answers: 0.05 s
_EXIT_S: Final = 0.4  # 0.1 s to cut connections, up to 0.2 s until the interpreter has exited


@dataclass(frozen=True, slots=True)
class Platform:
    """What kills this process after a SIGTERM, after how many seconds by default, and the grace that fits."""

    kills: str
    after_s: float
    grace_s: float

    @classmethod
    def here(cls) -> Platform:
        return detect(os.environ, Path("/"))


KUBERNETES: Final = Platform("Kubernetes kills", 30, 25)
CONTAINER: Final = Platform("a container runtime kills", 10, 8)
HOST: Final = Platform("not in a container; systemd kills", 90, 25)  # 25: other service managers kill after 30 s


def detect(environ: Mapping[str, str], root: Path) -> Platform:
    """From the environment and the files below `root`."""
    if environ.get("KUBERNETES_SERVICE_HOST"):  # every pod has it
        return KUBERNETES
    in_container = environ.get("container") in _RUNTIMES or any((root / mark).exists() for mark in _MARKS)
    return CONTAINER if in_container or _is_an_image(root) else HOST


def _is_an_image(root: Path) -> bool:
    """Whether `root` is mounted from a runtime's image store: containerd alone leaves no other mark."""
    try:
        mounts = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(store in mount for mount in mounts if mount.split()[4:5] == ["/"] for store in _IMAGE_STORES)


@dataclass(frozen=True, slots=True)
class StopTimes:
    """When the parts of a stop are over at the latest, in seconds after the signal.

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
        """For a configured grace, or for the one that fits the platform.

        A longer one is for a platform that is configured to wait longer. That limit is in no file or variable; 5 s more
        than the grace are enough while the database answers.
        """
        drain_s = platform.grace_s if grace_s is None else grace_s
        limit_s, why = platform.after_s, f"{platform.kills} {platform.after_s:g}s after SIGTERM"
        if limit_s - drain_s < _LEAST_REST_S:
            limit_s, why = drain_s + _UNKNOWN_REST_S, f"{why}, raise that to {drain_s + _RAISED_BY_S:g}s"
        stop_task_s = min(_STOP_TASK_S, (limit_s - drain_s) / 2)
        end_s = limit_s - _EXIT_S
        store_s = min(drain_s + stop_task_s + _STORE_S, end_s - _GOODBYE_S)
        return cls(drain_s, stop_task_s, store_s, end_s, why)
