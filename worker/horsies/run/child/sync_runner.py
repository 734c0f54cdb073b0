"""Runs plain tasks in the child's main thread, one after the other.

The main thread reads the socket itself: a reader thread would cost a hand-over between threads for each job.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final

from horsies.run.child.execute import ChildRun, Message, execute
from horsies.run.child.stack import other_threads, stack_of_thread
from horsies.run.frames import CHUNK, FrameReader, pack

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import FrameType

    from horsies.domain.trace import Tracing
    from horsies.run.child.execute import Tasks
    from horsies.run.child.hooks import ChildHooks
    from horsies.run.child.leases import ChildLeases
    from horsies.run.child.stack import Stack
    from horsies.run.child.stdio import RecordSender
    from horsies.run.outcomes import Report, TaskStopped
    from horsies.run.progress_table import ProgressTable

_HEARD_AFTER_S: Final = 0.05
"""A signal is handled within a millisecond, unless C code is running that does not return."""


class SyncRunner:
    """`run` belongs to the main thread, `stop` to the thread that listens to the parent."""

    def __init__(self, channel: socket.socket, flush_output: Callable[[], None], logs: RecordSender) -> None:
        self._channel = channel
        self._flush_output = flush_output
        self._logs = logs
        self.current_key: str | None = None  # the job of the prints
        self._tasks: Tasks = {}
        self._leases: ChildLeases
        self._progress: ProgressTable
        self._tracing: Tracing | None = None
        self._hooks: ChildHooks | None = None
        self._current: ChildRun | None = None
        self._shielded = False
        self._stops: dict[int, TaskStopped] = {}
        self._pid = os.getpid()

    def run(
        self,
        tasks: Tasks,
        leases: ChildLeases,
        progress: ProgressTable,
        tracing: Tracing | None,
        hooks: ChildHooks | None,
    ) -> None:
        """Run jobs until the parent closes the socket."""
        self._tasks, self._leases, self._progress = tasks, leases, progress
        self._tracing, self._hooks = tracing, hooks
        frames = FrameReader()
        while data := self._channel.recv(CHUNK):
            # Removed one by one: 100 MB of arguments would otherwise stay here until the next job comes.
            jobs = deque(frames.feed(data))
            while jobs:
                # Each result is sent before other user code starts: that may crash, or take an hour.
                self._channel.sendall(pack([self._finished(Message(*jobs.popleft()))]))

    def stop(self, number: int, stop: TaskStopped) -> None:
        """Interrupt this job if it runs, refuse it if it comes later; a job that has already ended is not affected."""
        self._stops[number] = stop
        current = self._current
        if current is not None and current.number == number:
            _wake()
            threading.Thread(target=self._repeat_signal, args=(current, stop), daemon=True).start()

    def stack(self, number: int, *, with_locals: bool) -> Stack | None:
        """Return what this job is doing, None if it does not run. Called from the thread that listens to the parent."""
        main, current = threading.main_thread().ident, self._current
        if current is None or current.number != number:
            return None
        frames = stack_of_thread(main, with_locals=with_locals)
        return {"frames": frames, "threads": other_threads({main}, with_locals=with_locals)}

    def on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        """Stop the current job if `_stops` says so: the signal only wakes the main thread.

        So a SIGTERM from elsewhere is ignored: systemd sends one to every process of a service that is stopped, and the
        tasks then have the parent's grace time.
        """
        current = self._current
        if self._shielded:
            return  # `_repeat_signal` repeats the signal
        if current is not None and (stop := self._stops.pop(current.number, None)) is not None:
            current.stop = stop
            raise stop

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let no stop interrupt this block of the main thread: half of a message would make the rest unreadable."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before, self._shielded = self._shielded, True
        try:
            yield
        finally:
            self._shielded = before

    def _repeat_signal(self, run: ChildRun, stop: TaskStopped) -> None:
        """Repeat the signal until it was handled: one just before a system call does not interrupt that."""
        sleep(_HEARD_AFTER_S)
        while self._current is run and self._stops.get(run.number) is stop:
            _wake()
            sleep(_HEARD_AFTER_S)

    def _finished(self, job: Message) -> Report:
        number, self.current_key = job.number, job.key
        run = self._current = ChildRun(number, job.slot, job, self._leases, self._progress)
        begin = perf_counter()
        if self._stops and (stop := self._take_stop(number)) is not None:
            outcome = stop.outcome(stop)
        else:
            outcome = execute(self._tasks, job, run, self._tracing, self._hooks)
        self._current = None
        duration_s = perf_counter() - begin
        self._flush_output()  # still under its key, but no longer open to a stop
        logged = self._logs.used and self._logs.take()
        self.current_key = None
        if os.getpid() != self._pid:
            os._exit(0)  # user code has forked and returned in both processes
        run.release()
        return number, outcome, duration_s, run.began, run.span, logged

    def _take_stop(self, number: int) -> TaskStopped | None:
        """Return the stop request for this job, if any; drop those that came too late for earlier jobs."""
        stop = self._stops.pop(number, None)
        # The thread that listens to the parent adds stops meanwhile: copied in one step, and never replaced.
        for late in [each for each in list(self._stops) if each < number]:
            self._stops.pop(late, None)
        return stop


def _wake() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
