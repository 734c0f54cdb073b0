"""The operating system's processes that a worker starts: their start, their end, their standstill; and the guard.

A lease says how long user code may go on without a stored heartbeat. It counts from the moment when a statement was
sent that the database has confirmed and that shows the run alive: its start or claim, later its heartbeats. A sweep of
any worker counts from when the database received that statement, which is later. So user code that is stopped, or
killed, at the times in `LeaseTerms` never overlaps with the next run.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from horsies.run import guard
from horsies.run.contract import ChildFailed
from horsies.run.guard import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies.run.contract import LeaseTerms


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
        """Reap the process, which has ended or is about to: without pidfd a closed socket is the first sign."""
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


def is_suspended(pid: int) -> bool:
    """Return whether it is stopped or frozen; False if it has ended, which is noticed otherwise."""
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


_DEATH_S: Final = 5.0


class Guard:
    """The worker's side of its guard, with which its children end; `on_end` is called unless close() ended it."""

    def __init__(self, terms: LeaseTerms, on_end: Callable[[Guard, int], None]) -> None:
        self.ended = False
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._closing = self._check_scheduled = False
        self._socket, end_of_guard = socket.socketpair()
        self._socket.setblocking(False)
        times = (milliseconds * 1_000_000 for milliseconds in (terms.stop_ms, terms.kill_ms, terms.threshold_ms))
        numbers = [str(number) for number in (os.getpid(), end_of_guard.fileno(), *times)]
        try:
            self._process = ChildProcess(
                self._loop,
                [sys.executable, "-I", "-S", guard.__file__, *numbers],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[end_of_guard.fileno()],
                on_exit=self._exited,
            )
        except OSError as error:
            self._socket.close()
            reason = f"the guard of the children cannot be started: {error}"
            raise ChildFailed(reason, notes=["see `ulimit -u` and the free memory"]) from error
        finally:
            end_of_guard.close()
        self.pid = self._process.pid
        self._loop.add_reader(self._socket, self._process.reap)  # it sends nothing: readable means that it has ended

    def watch(self, child: ChildProcess, table_fd: int, guard_pipe: int) -> None:
        """Pass the guard what it needs; the caller closes its own descriptors. Without a guard the child ends."""
        descriptors = [table_fd, guard_pipe] if child.pidfd < 0 else [table_fd, guard_pipe, child.pidfd]
        self._send(child.pid, descriptors)

    def check(self) -> None:
        """Have the guard check now, once per iteration of the loop: the lease of a new run began some time ago."""
        if not self._check_scheduled:
            self._check_scheduled = True
            self._loop.call_soon(self._send, 0, [])

    async def close(self) -> None:
        """End the guard, and with it every child that is left."""
        self._closing = True
        self._process.kill()
        await asyncio.wait([self._gone], timeout=_DEATH_S)

    def _send(self, number: int, descriptors: list[int]) -> None:
        self._check_scheduled = False
        if not self.ended:
            try:
                socket.send_fds(self._socket, [number.to_bytes(MESSAGE, "little")], descriptors)
            except BlockingIOError:
                if descriptors:  # it does not read, so that it would not watch this child
                    self._process.kill()
            except OSError:  # it has just ended
                self._process.kill()

    def _exited(self, returncode: int) -> None:
        self.ended = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._gone.set_result(None)
        if not self._closing:
            self._on_end(self, returncode)


def shared_memory(name: str, size: int) -> int:
    """Return a descriptor of zeroed memory that processes can share."""
    if sys.platform == "linux":
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd
