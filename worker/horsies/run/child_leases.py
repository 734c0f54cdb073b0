"""The leases of runs in the child: user code begins only with one, and is stopped when it ends."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from horsies.domain.codes import OperationalErrorCode
from horsies.run.execute import TaskStopped
from horsies.run.guard import LeaseTable, clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.contract import LeaseTerms


class ChildLeases:
    """Read from memory that the worker writes: neither a frozen worker nor a full socket keeps a lease alive."""

    def __init__(self, table: LeaseTable, terms: LeaseTerms, stop: Callable[[int, int, TaskStopped], None]) -> None:
        self._table = table
        self._terms = terms
        self._stop_ns = terms.stop_ms * 1_000_000
        self._round_s = (terms.kill_ms - terms.stop_ms) / 2_000
        self._idle_s = terms.stop_ms / 2_000
        self._stop = stop
        self._told: dict[int, int] = {}

    def begin(self, slot: int, number: int) -> None:
        """User code is about to be called: TaskStopped where the lease has ended before."""
        confirmed_at = self._table.confirmed_at(slot)
        if clock() >= confirmed_at + self._stop_ns:
            raise self._over(confirmed_at)
        self._table.begin(slot, number)

    def end(self, slot: int, number: int) -> None:
        """User code has ended: from now on it needs no lease."""
        self._table.end(slot, number)

    def start(self) -> None:
        threading.Thread(target=self._watch, name="horsies leases", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(self._stop_overdue())

    def _stop_overdue(self) -> float:
        """Stop each run whose lease has ended, once; returns how long until the next end, or the next look."""
        now, pause_s = clock(), self._idle_s
        for slot, number, confirmed_at, _ in self._table.runs():
            left_ns = confirmed_at + self._stop_ns - now
            if left_ns > 0:
                pause_s = min(pause_s, self._round_s, left_ns / 1e9)
            elif self._told.get(slot) != number:
                self._told[slot] = number
                self._stop(slot, number, self._over(confirmed_at))
        return pause_s

    def _over(self, confirmed_at: int) -> TaskStopped:
        return TaskStopped(OperationalErrorCode.WORKER_CRASHED, self._terms.over(confirmed_at))


def end_with_guard(rope: int) -> None:
    """The kernel kills this process when the other end of the rope closes, whatever it is at."""
    if sys.platform == "linux":
        fcntl.fcntl(rope, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(rope, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(rope, fcntl.F_SETFL, fcntl.fcntl(rope, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(rope, select.POLLIN)
    if poll.poll(0):
        os._exit(1)  # the guard ended before the kernel knew
