"""The leases of runs on the worker's side: how long user code may go on without a stored heartbeat, and the guard.

A lease counts from the moment when a statement was sent that the database has confirmed and that shows the run alive:
its start or claim, later its heartbeats. A sweep of any worker counts from when the database received that statement,
which is later. So user code that is stopped, or killed, at the times in `LeaseTerms` never overlaps with the next run.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from horsies.run import guard
from horsies.run.contract import ChildFailed
from horsies.run.guard import MESSAGE, SLOT_BYTES
from horsies.run.pool.process import ChildProcess
from horsies.waits_in_tasks import WAIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.contract import LeaseTerms

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
        """A run was started whose lease began some time ago. The guard is notified once per iteration of the loop."""
        if not self._check_scheduled:
            self._check_scheduled = True
            self._loop.call_soon(self._send_check)

    async def close(self) -> None:
        """End the guard, and with it every child that is left."""
        self._closing = True
        self._process.kill()
        await asyncio.wait([self._gone], timeout=_DEATH_S)

    def _send_check(self) -> None:
        self._check_scheduled = False
        self._send(0, [])

    def _send(self, number: int, descriptors: list[int]) -> None:
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


def memory_for(slots: int) -> int:
    """A descriptor of memory for a LeaseTable with this number of slots, all free."""
    return shared_memory("horsies leases", slots * SLOT_BYTES)


def memory_for_waits(children: int) -> int:
    """A descriptor of memory for SiblingWaits."""
    return shared_memory("horsies waits", children * WAIT_BYTES)


def shared_memory(name: str, size: int) -> int:
    """A descriptor of zeroed memory that processes can share."""
    if sys.platform == "linux":
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd
