"""The memory that a worker and its children use, and the limits at which a process of theirs is killed."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


@dataclass(frozen=True, slots=True)
class _Files:
    """The names under which a version of control groups tells a group's memory."""

    limit: str
    used: str
    cache: str


_VERSION_1: Final = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2: Final = _Files("memory.max", "memory.current", "inactive_file")


def container_memory(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> ContainerMemory | None:
    """Return the memory of the control group that has least left, of those that this process is in.

    None where none of them has a limit, and elsewhere than on Linux. A group above may have the lower limit: that of a
    pod, or of a service.
    """
    found = []
    with suppress(OSError):
        for group, files in _groups(membership.read_text(encoding="utf-8").splitlines(), mount):
            with suppress(OSError, ValueError):  # not mounted here, or "max"
                limit = int((group / files.limit).read_text(encoding="ascii"))
                used = int((group / files.used).read_text(encoding="ascii")) - _cache(group, files)
                if 0 < limit < _NO_LIMIT:
                    found.append(ContainerMemory(used / MB, limit / MB))
    return min(found, key=lambda one: one.limit_mb - one.used_mb, default=None)


def _groups(lines: Iterable[str], mount: Path) -> Iterator[tuple[Path, _Files]]:
    """The group of this process and all above it; in a container the outermost may be the only one that is mounted."""
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, files = (mount / "memory", _VERSION_1) if controllers else (mount, _VERSION_2)
        group = root / path.lstrip("/")
        yield from ((each, files) for each in (group, *group.parents) if each.is_relative_to(root))


def _cache(group: Path, files: _Files) -> int:
    """The file cache that the kernel takes back before it kills a process."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        name, _, amount = line.partition(" ")
        if name == files.cache:
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
    """The limit of its address space (`ulimit -v`), beyond which its allocations fail."""
    if sys.platform != "linux":
        return None
    limit = process.rlimit(psutil.RLIMIT_AS)[0]
    return limit / MB if 0 < limit < _NO_LIMIT else None
