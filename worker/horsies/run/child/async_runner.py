"""Runs `async def` tasks in one event loop, in a thread of its own: a plain task may block the main thread for long."""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import threading
from collections import deque
from concurrent.futures import Future
from time import perf_counter
from typing import TYPE_CHECKING

from horsies.run.child.execute import ChildRun, Message, execute_async
from horsies.run.child.stack import other_threads, stack_of_task
from horsies.run.frames import CHUNK, FrameReader, pack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.domain.trace import Tracing
    from horsies.run.child.execute import Tasks
    from horsies.run.child.hooks import ChildHooks
    from horsies.run.child.leases import ChildLeases
    from horsies.run.child.stack import Stack
    from horsies.run.child.stdio import RecordSender
    from horsies.run.outcomes import Report, TaskStopped
    from horsies.run.progress_table import ProgressTable

current_key: contextvars.ContextVar[str | None] = contextvars.ContextVar("current_key", default=None)


class AsyncRunner:
    """A runner of at most `limit` tasks at once; the others wait in order of arrival."""

    def __init__(
        self,
        channel: socket.socket,
        tasks: Tasks,
        limit: int,
        leases: ChildLeases,
        progress: ProgressTable,
        tracing: Tracing | None,
        flush_output: Callable[[], None],
        logs: RecordSender,
    ) -> None:
        self._channel = channel
        self._leases = leases
        self._progress = progress
        self._tracing = tracing
        self.hooks: ChildHooks | None = None
        self._tasks = tasks
        self._limit = limit
        self._flush_output = flush_output
        self._logs = logs
        self._frames = FrameReader()
        self._active: dict[int, tuple[ChildRun, asyncio.Task[None] | None]] = {}
        self._waiting: deque[Message] = deque()
        self._unsent: deque[memoryview] = deque()
        """Reports that the parent has not read: it reads none while too many wait for the database."""
        self._no_more = self._joining = False
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="horsies async tasks", daemon=True)

    def start(self) -> int:
        """Run tasks until join(). Returns the id of their thread."""
        self._thread.start()
        return self._thread.native_id or 0

    def join(self) -> None:
        """Wait until the parent has closed the socket and the last task has ended."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def wait_for(self, work: Awaitable[object], context: contextvars.Context) -> None:
        """Run this in the loop and in that context. Called from the main thread, also after join().

        An exception that a signal handler raises meanwhile, as a stop does, cancels it.
        """
        if not self._thread.is_alive():
            self._loop.run_until_complete(self._loop.create_task(_awaited(work), context=context))
            return
        done: Future[None] = Future()
        tasks: list[asyncio.Task[None]] = []

        def start() -> None:
            task = self._loop.create_task(_awaited(work), context=context)
            task.add_done_callback(lambda task: _pass_on(task, done))
            tasks.append(task)

        self._loop.call_soon_threadsafe(start)
        try:
            done.result()
        except BaseException:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise

    def has_leftover_tasks(self) -> bool:
        """Return whether ended user code has left asyncio tasks in the loop. Called from another thread."""
        return len(asyncio.all_tasks(self._loop)) > len(self._active)

    def stop(self, number: int, stop: TaskStopped) -> None:
        """Cancel this task if it runs, drop it if it waits. Called from the thread that listens to the parent."""
        self._loop.call_soon_threadsafe(self._stop, number, stop)

    def stack(self, number: int, *, with_locals: bool) -> Stack | None:
        """Return what this job is doing, None if it does not run. Called from the thread that listens to the parent."""
        _, task = self._active.get(number, (None, None))
        if task is None:
            return None
        thread = self._thread.ident
        is_current = asyncio.current_task(self._loop) is task
        frames = stack_of_task(task, loop_thread=thread, is_current=is_current, with_locals=with_locals)
        known = {thread, threading.main_thread().ident}
        return {"frames": frames, "threads": other_threads(known, with_locals=with_locals)}

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self._channel.fileno(), self._read)
        while not self._has_ended:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # asyncio lets these two exceptions through from any task; the task that raised has ended, the others go
                # on.
                continue

    @property
    def _has_ended(self) -> bool:
        """True if the loop may end: after join() only, because hooks of plain tasks use the loop, too."""
        return self._joining and self._no_more and not self._active and not self._unsent

    def _end(self) -> None:
        self._joining = True
        if self._has_ended:
            self._loop.stop()

    def _read(self) -> None:
        try:
            data = self._channel.recv(CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            self._no_more = True
            self._loop.remove_reader(self._channel.fileno())
        self._waiting += (Message(*job) for job in self._frames.feed(data))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._active) < self._limit and not self._unsent:
            job = self._waiting.popleft()
            run = ChildRun(job.number, job.slot, job, self._leases, self._progress)
            self._active[run.number] = run, None
            self._loop.create_task(self._execute(job, run))
        if self._has_ended:
            self._loop.stop()

    async def _execute(self, job: Message, run: ChildRun) -> None:
        current_key.set(job.key)
        begin = perf_counter()
        if run.stop is None:
            self._active[run.number] = run, asyncio.current_task()
            outcome = await execute_async(self._tasks, job, run, self._tracing, self.hooks)
        else:
            outcome = run.stop.outcome(run.stop)
        del self._active[run.number]
        duration_s = perf_counter() - begin
        self._flush_output()
        logged = self._logs.used and self._logs.take()
        if os.getpid() != self._pid:
            os._exit(0)  # user code has forked and returned in both processes
        run.release()
        self._report((run.number, outcome, duration_s, run.began, run.span, logged))
        self._start_waiting()

    def _report(self, report: Report) -> None:
        # At once: a result must not wait for other user code, which may crash, or take an hour.
        self._unsent.append(memoryview(pack([report])))
        if len(self._unsent) == 1 and not self._send():
            self._loop.add_writer(self._channel.fileno(), self._send_rest)

    def _send(self) -> bool:
        """Send reports without blocking; return whether all are sent. No further task starts meanwhile."""
        while self._unsent:
            try:
                sent = self._channel.send(self._unsent[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:  # the parent has ended, and with it this process
                self._unsent.clear()
                return True
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
            else:
                self._unsent.popleft()
        return True

    def _send_rest(self) -> None:
        if self._send():
            self._loop.remove_writer(self._channel.fileno())
            self._start_waiting()

    def _stop(self, number: int, stop: TaskStopped) -> None:
        if number in self._active:
            run, task = self._active[number]
            run.stop = stop
            if task is not None:  # a task that is cancelled before its first step never runs, and would never report
                task.cancel()
            return
        for job in self._waiting:
            if job.number == number:
                self._waiting.remove(job)
                self._report((number, stop.outcome(stop), 0.0, False, None, False))
                return


async def _awaited(work: Awaitable[object]) -> None:
    await work


def _pass_on(task: asyncio.Task[None], done: Future[None]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
