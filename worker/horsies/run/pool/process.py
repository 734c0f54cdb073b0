"""One operating system process: its start cannot be hit by a signal, its end and its standstill are noticed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence


_REAP_PAUSE_S: Final = 0.01
_BLOCKED: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_TGKILL: Final = getattr(ctypes.CDLL(None), "tgkill", None)  # glibc has it from 2.30 on, musl does not


class ChildProcess:
    """`on_exit` is called once, with the return code as subprocess has it: -9 for SIGKILL."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int],
        on_exit: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._on_exit = on_exit
        self._reaped = False
        # The child inherits the mask: otherwise ctrl+c during Python's start would end it. A signal to this process
        # meanwhile, about 2 ms, is delivered afterwards.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                env={**os.environ, "HORSIES_CHILD_PROCESS": "1"},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid) if sys.platform == "linux" else -1
        if self.pidfd >= 0:
            loop.add_reader(self.pidfd, self.reap)

    def kill(self) -> None:
        self._process.kill()

    def signal_thread(self, thread: int, number: int) -> None:
        """Send a signal to the thread with this native id; without tgkill the main thread gets it."""
        if self._process.returncode is not None:
            return  # its number may stand for another process
        if _TGKILL is not None:
            _TGKILL(self.pid, thread, number)
        else:
            self._process.send_signal(number)

    def reap(self) -> None:
        """The process has ended, or is about to: on systems other than Linux a closed socket is the first sign."""
        if self._reaped:
            return
        returncode = self._process.poll()
        if returncode is None:
            self._loop.call_later(_REAP_PAUSE_S, self.reap)
            return
        self._reaped = True
        if self.pidfd >= 0:
            self._loop.remove_reader(self.pidfd)
            os.close(self.pidfd)
        self._on_exit(returncode)


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
