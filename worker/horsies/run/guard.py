"""The guard: a small process that kills a child whose run outlives its lease, even if all other processes stand still.

Run as `python -I -S guard.py PARENT_PID SOCKET_FD STOP_NS KILL_NS THRESHOLD_NS`. It imports only the standard library,
so that it takes 8 MB and starts in 20 ms. `LeaseTable` is defined here for the same reason; the worker and its children
import it from here.

The child itself stops a run whose lease has expired. That needs its interpreter: C code that holds the GIL, or a
stopped child, is left to the guard. If the guard is stopped as well, with the whole process group, a timer of the
kernel kills the guard, and the end of the guard kills the children: each holds the read end of the guard pipe,
whose only write end is in the guard, and has the kernel send SIGKILL when that closes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Final

FAR: Final = 1 << 62
"""A confirmation whose lease does not expire."""
SLOT_BYTES: Final = 24
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NS: Final = 1_000_000_000
MESSAGE: Final = 8
"""Bytes of each message to the guard: the pid of a child, with its descriptors, or 0 to check again."""


clock = partial(time.clock_gettime_ns, _CLOCK)
"""Nanoseconds, the same for all processes of this machine; time in suspend counts."""


class LeaseTable:
    """The runs in one child, in memory shared by its parent, the child and the guard.

    A slot is the index of its first word. It has three, each written whole and by one process only: the number of the
    job, 0 while the slot is free (parent); when a statement was sent that the database has confirmed, and that showed
    the run alive (parent); the number once user code is about to begin, negative when it has ended (child).
    """

    def __init__(self, fd: int) -> None:
        """Map the memory; `fd` stays open and belongs to the caller."""
        self._memory = mmap.mmap(fd, 0)
        self._words = memoryview(self._memory).cast("q")
        self.slots = range(0, len(self._words), 3)

    @staticmethod
    def index(slot: int) -> int:
        """Counted from 0: where another table has what belongs to this slot."""
        return slot // 3

    def assign(self, slot: int, number: int, confirmed_at: int) -> None:
        self._words[slot + 1] = confirmed_at
        self._words[slot] = number

    def confirm(self, slot: int, confirmed_at: int) -> None:
        self._words[slot + 1] = max(confirmed_at, self._words[slot + 1])

    def release(self, slot: int) -> None:
        # The time first: on a machine that reorders writes the next job could be seen with the time of this one.
        self._words[slot + 1] = FAR
        self._words[slot] = 0

    def confirmed_at(self, slot: int) -> int:
        return self._words[slot + 1]

    def begin(self, slot: int, number: int) -> None:
        self._words[slot + 2] = number

    def end(self, slot: int, number: int) -> None:
        self._words[slot + 2] = -number

    def has_begun(self, slot: int, number: int) -> bool:
        return abs(self._words[slot + 2]) == number

    def runs(self) -> list[tuple[int, int, int, bool]]:
        """Slot, number, confirmation and whether user code has begun, of each job that has not ended."""
        words = self._words.tolist()
        return [
            (slot, number, confirmed_at, mark == number)
            for slot, number, confirmed_at, mark in zip(self.slots, words[::3], words[1::3], words[2::3], strict=True)
            if number and mark != -number
        ]

    def close(self) -> None:
        self._words.release()
        self._memory.close()


class _WatchedChild:
    """A child that the guard watches."""

    def __init__(self, pid: int, descriptors: list[int]) -> None:
        table_fd, self.guard_pipe, *pidfd = descriptors
        self.pid = pid
        self.pidfd = pidfd[0] if pidfd else -1
        self.killed = False
        self.table = LeaseTable(table_fd)
        os.close(table_fd)

    def kill(self) -> None:
        self.killed = True
        with suppress(ProcessLookupError):  # it exits by itself at this moment
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        """Return whether its process has ended, asked by pid: for systems without pidfd, which are all but Linux."""
        try:
            if self.pidfd < 0:
                os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def close(self) -> None:
        self.table.close()
        for descriptor in (self.guard_pipe, self.pidfd):
            if descriptor >= 0:
                os.close(descriptor)


class _Alarm:
    """Kills this process at a given time, even while it is stopped: the kernel sends the signal."""

    def __init__(self) -> None:
        self._timer = ctypes.c_void_p()
        event = _SignalEvent(None, signal.SIGKILL, 0, b"")
        try:
            library = ctypes.CDLL(None)  # without timers before glibc 2.34
            self._library = library if hasattr(library, "timer_create") else ctypes.CDLL("librt.so.1")
            failed = self._library.timer_create(_CLOCK, ctypes.byref(event), ctypes.byref(self._timer)) != 0
        except (AttributeError, OSError):  # macOS: SIGALRM ends a stopped process once it continues
            failed = True
        self._is_plain = failed

    def set(self, at: int) -> None:
        if self._is_plain:
            signal.setitimer(signal.ITIMER_REAL, max(at - clock(), 1_000_000) / _NS)
        else:
            when = _TimerSpec(0, 0, at // _NS, at % _NS)
            self._library.timer_settime(self._timer, 1, ctypes.byref(when), None)


class _SignalEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class _TimerSpec(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns"))


class _Guard:
    def __init__(self, parent: socket.socket, stop_ns: int, kill_ns: int, threshold_ns: int) -> None:
        self._parent = parent
        self._stop_ns = stop_ns
        self._kill_ns = kill_ns
        self._slack_ns = (threshold_ns - kill_ns) // 2
        self._round_ns = (kill_ns - stop_ns) // 2
        self._children: list[_WatchedChild] = []
        self._poll = select.poll()
        self._poll.register(parent, select.POLLIN)
        self._alarm = _Alarm()

    def run(self) -> None:
        """Watch until the parent closes its end."""
        while True:
            now = clock()
            wait_ns = self._round(now) - now
            for fd, _ in self._poll.poll(max(0, wait_ns) // 1_000_000 + 1):
                if fd != self._parent.fileno():
                    self._forget(fd)
                elif not self._listen():
                    return

    def _round(self, now: int) -> int:
        """Kill overdue children, set the alarm, and return when to check again.

        No run that starts before that expires before the alarm: its lease begins now, or began shortly before.
        """
        earliest, busy = now + self._kill_ns, False
        for child in [each for each in self._children if each.has_ended()]:
            self._drop(child)
        for child in self._children:
            for _, _, confirmed_at, begun in [] if child.killed else child.table.runs():
                end = confirmed_at + self._kill_ns
                if begun and end <= now:
                    child.kill()
                    break
                if begun or confirmed_at + self._stop_ns > now:  # else its child does not let it begin
                    earliest, busy = min(earliest, end), True
        self._alarm.set(earliest + self._slack_ns)
        return min(earliest, now + (self._round_ns if busy else self._kill_ns // 2))

    def _listen(self) -> bool:
        """Read a message; return whether the parent is alive."""
        data, descriptors, _, _ = socket.recv_fds(self._parent, MESSAGE, 3)
        if descriptors:
            child = _WatchedChild(int.from_bytes(data, "little"), descriptors)
            self._children.append(child)
            if child.pidfd >= 0:
                self._poll.register(child.pidfd, select.POLLIN)
        return bool(data)

    def _forget(self, pidfd: int) -> None:
        """Drop the child of this pidfd, which has ended."""
        self._poll.unregister(pidfd)
        for child in [each for each in self._children if each.pidfd == pidfd]:
            self._drop(child)

    def _drop(self, child: _WatchedChild) -> None:
        self._children.remove(child)
        child.close()


def main() -> None:
    parent_pid, fd, *times = map(int, sys.argv[1:])
    # The parent handles signals to the whole process group, or from systemd to all of a service.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, as in die_with_parent.py
        ctypes.CDLL(None).prctl(15, b"horsies guard")  # PR_SET_NAME, for `top`
    if os.getppid() == parent_pid:
        _Guard(socket.socket(fileno=fd), *times).run()


if __name__ == "__main__":
    main()
