"""The leases of runs in the child process: user code starts only with a lease, and is stopped when it expires."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
import time
from concurrent.futures import thread as pool
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from horsies.domain.codes import OperationalErrorCode
from horsies.run.guard import FAR, LeaseTable, clock
from horsies.run.outcomes import TaskStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.contract import LeaseTerms

_LAST_CALL_NS: Final = 50_000_000
_IDLE: Final = pool._worker.__code__  # noqa: SLF001 - where a thread of a pool waits


class ChildLeases:
    """Read from memory that the worker writes: neither a frozen worker nor a full socket keeps a lease alive."""

    def __init__(
        self,
        table: LeaseTable,
        terms: LeaseTerms,
        stop: Callable[[int, int, TaskStopped], None],
        has_leftover_tasks: Callable[[], bool],
    ) -> None:
        self._table = table
        self._terms = terms
        self._stop_ns = terms.stop_ms * 1_000_000
        self._round_s = (terms.kill_ms - terms.stop_ms) / 2_000
        self._idle_s = terms.stop_ms / 2_000
        self._kill_ns = terms.kill_ms * 1_000_000
        self._stop = stop
        self._has_leftover_tasks = has_leftover_tasks
        self._stopped: dict[int, int] = {}
        self._last_call = FAR

    def begin(self, slot: int, number: int) -> None:
        """Mark that user code is about to be called; TaskStopped if the lease has already expired."""
        confirmed_at = self._table.confirmed_at(slot)
        if clock() >= confirmed_at + self._stop_ns:
            raise self._over(confirmed_at)
        self._table.begin(slot, number)

    def end(self, slot: int, number: int) -> None:
        """Mark that user code has ended and needs no lease any more."""
        self._table.end(slot, number)

    def start(self) -> None:
        threading.Thread(target=self._watch, name="horsies leases", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(self._stop_overdue())

    def _stop_overdue(self) -> float:
        """Stop each run whose lease has expired, once; returns the time until the next expiry or check.

        A cancelled coroutine ends, but leaves the thread running that it waited for. Only the end of the process stops
        a thread.
        """
        now, pause_s = clock(), self._idle_s
        if now >= self._last_call:
            self._last_call = FAR
            if _threads_at_work() or self._has_leftover_tasks():
                os.kill(os.getpid(), signal.SIGKILL)
        for slot, number, confirmed_at, begun in self._table.runs():
            left_ns = confirmed_at + self._stop_ns - now
            if left_ns > 0:
                pause_s = min(pause_s, self._round_s, left_ns / 1e9)
            elif self._stopped.get(slot) != number:
                self._stopped[slot] = number
                if begun:
                    self._last_call = min(self._last_call, max(now, confirmed_at + self._kill_ns - _LAST_CALL_NS))
                self._stop(slot, number, self._over(confirmed_at))
        return min(pause_s, max(0.0, (self._last_call - now) / 1e9))

    def _over(self, confirmed_at: int) -> TaskStopped:
        return TaskStopped(OperationalErrorCode.WORKER_CRASHED, self._terms.over(confirmed_at))


def _threads_at_work() -> bool:
    """Return whether user code runs in a thread of its own; pool threads that wait for work do not count."""
    own = {thread.ident for thread in threading.enumerate() if thread.name.startswith(("horsies ", "MainThread"))}
    frames = [frame for ident, frame in sys._current_frames().items() if ident not in own]  # noqa: SLF001
    return any(frame.f_code is not _IDLE for frame in frames)


def end_with_guard(guard_pipe: int) -> None:
    """Have the kernel kill this process when the other end of the guard pipe closes, whatever the process is doing."""
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may lack it; then the worker kills this process, unless it is stopped
            fcntl.fcntl(guard_pipe, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(guard_pipe, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(guard_pipe, fcntl.F_SETFL, fcntl.fcntl(guard_pipe, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(guard_pipe, select.POLLIN)
    if poll.poll(0):
        os._exit(1)  # the guard ended before prctl took effect
