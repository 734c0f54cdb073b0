"""Whether a process is stopped: by SIGSTOP, by a debugger, or with its cgroup, as `docker pause` does."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_CGROUPS: Final = Path("/sys/fs/cgroup")
_PROC: Final = Path("/proc")


def stands_still(pid: int) -> bool:
    """A few small reads. A process that has ended does not count: its end is noticed otherwise."""
    if sys.platform != "linux":
        with suppress(psutil.Error):
            return psutil.Process(pid).status() == psutil.STATUS_STOPPED
        return False
    with suppress(OSError):
        stat = (_PROC / f"{pid}/stat").read_bytes()
        return stat[stat.rindex(b")") + 2] in b"Tt" or _is_frozen(pid)
    return False


def _is_frozen(pid: int) -> bool:
    theirs = (_PROC / f"{pid}/cgroup").read_text()
    if theirs == (_PROC / "self/cgroup").read_text():
        return False  # this process runs
    for line in theirs.splitlines():
        _, controllers, path = line.split(":", 2)
        group = path.strip("/")
        with suppress(OSError):  # not mounted, or not on this system
            if controllers == "":
                return "frozen 1" in (_CGROUPS / group / "cgroup.events").read_text()
            if controllers == "freezer":
                return (_CGROUPS / "freezer" / group / "freezer.state").read_text().strip() != "THAWED"
    return False
