"""The parent's side of one child process: its start, jobs in, results and output out, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from horsies.run.contract import (
    TASK_INTERRUPTED,
    ChildExit,
    ChildFailed,
    ChildResult,
    ChildSpec,
    Job,
    KnownTask,
    LogRecord,
    Stream,
)
from horsies.run.frames import Channel
from horsies.run.guard import SLOT_BYTES, LeaseTable, clock
from horsies.run.pool.job_queue import JobQueue, LostJobs, Title
from horsies.run.pool.output import OutputReader
from horsies.run.pool.process import ChildProcess, is_suspended, shared_memory
from horsies.run.pool.stacks import StackReader
from horsies.run.progress_table import RECORD_BYTES, ProgressTable
from horsies.waits_in_tasks import WAIT_BYTES

if TYPE_CHECKING:
    from horsies.domain.progress_pace import Reading
    from horsies.run.child.stack import Stack
    from horsies.run.pool.process import Guard

_RECYCLE_GRACE_S: Final = 5.0
_DEATH_S: Final = 5.0  # SIGKILL takes milliseconds, unless the process hangs in the kernel
_RECENT_LINES: Final = 20
_SPARE_SLOTS: Final = 64  # a child gets at most 32 plain jobs ahead
_STREAMS: Final[tuple[Stream, Stream]] = ("stdout", "stderr")


class ChildListener(Protocol):
    """The owner of the jobs in children. All methods run in the event loop and must not raise."""

    def joined(self, child: Child) -> None:
        """Give jobs to a child that is ready."""

    def interrupt(self, child: Child) -> None:
        """Stop the jobs of this child, as the stop of the worker does."""

    def ended(self, child: Child, key: str, result: ChildResult) -> None:
        """Take the result of a job."""

    def printed(self, child: Child, key: str | None, stream: Stream, line: str) -> None:
        """Take a line of output; no key if nothing says which job wrote it."""

    def logged(self, child: Child, key: str | None, record: LogRecord) -> None:
        """Take a record of `logging` in user code."""

    def reported(self, key: str, reading: Reading) -> None:
        """Take the last report of a job's progress, before its result and after read_progress()."""

    def exited(self, child: Child, end: ChildExit) -> None:
        """Take the end of a child that was ready, after every result that it had sent."""


class Child:
    """One child process. All methods run in the event loop that called start()."""

    def __init__(self, spec: ChildSpec, guard: Guard, listener: ChildListener) -> None:
        self.spec = spec
        self.guard = guard
        self.facts: dict[str, KnownTask] = {}
        self.config_text = ""
        """The configuration that it has imported, to be compared with that of another child."""
        self.definitions: list[str] = []
        """The keys of its workflow definitions."""
        self.running: dict[str, float] = {}  # key -> start of user code (time.monotonic)
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self.reported = listener.reported
        self._is_started = False
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._coroutines: frozenset[str] = frozenset()
        self._submitted = 0
        self._finishing = False
        self._too_late: list[str] = []
        self._recent_lines: deque[str] = deque(maxlen=_RECENT_LINES)
        self.title = Title(
            self._loop,
            spec.title,
            self.running,
            lambda key: next(queue.task_name(key) for queue in self._queues if key in queue),
            lambda title: self.control.send(("title", title)),
        )
        self.control = Channel(self._loop, self._hear, self.lost)
        self._was_suspended = False
        self._table_fd = shared_memory("horsies leases", (2 * _SPARE_SLOTS + spec.async_concurrency) * SLOT_BYTES)
        self.table = LeaseTable(self._table_fd)
        self._progress_fd = shared_memory("horsies progress", (len(self.table.slots) + 1) * RECORD_BYTES)
        self.progress = ProgressTable(self._progress_fd)
        self._late_ns = spec.terms.late_ns
        slots = self.table.slots
        self._queues = (
            JobQueue(self, 0, 1, slots[:_SPARE_SLOTS]),
            JobQueue(self, 1, spec.async_concurrency, slots[_SPARE_SLOTS:]),
        )
        self._channels = [self.control, *(queue.channel for queue in self._queues)]
        self._dump = shared_memory("horsies stacks", 0)
        self._process, self._outputs = self._spawn()
        self._stacks = StackReader(
            self._dump, lambda *question: self.control.send(question), self._process.signal_thread
        )
        self.pid = self._process.pid
        self.name = f"worker-{self.pid}"

    @classmethod
    async def start(cls, spec: ChildSpec, guard: Guard, listener: ChildListener) -> Child:
        """Start a child and wait until it has imported the app; raises ChildFailed with the reason otherwise."""
        child = cls(spec, guard, listener)
        try:
            async with asyncio.timeout(spec.start_timeout_s):
                await child._ready
        except TimeoutError:
            await child._end()
            raise child._failure(
                f"it was not ready after {spec.start_timeout_s:g} s",
                "a module of the application hangs, or takes that long, while it is imported",
            ) from None
        except BaseException:
            await child._end()
            raise
        if child.has_ended:
            raise child._failure("it ended as soon as it was ready")
        child._is_started = True
        return child

    @property
    def in_flight(self) -> int:
        """Number of jobs submitted without a result yet: running or waiting in the child."""
        return sum(len(queue) for queue in self._queues)

    @property
    def remaining(self) -> int | None:
        """Number of jobs that this child still takes: None = no limit, 0 = it is about to end."""
        if self._finishing:
            return 0
        return None if self.spec.max_tasks is None else max(0, self.spec.max_tasks - self._submitted)

    def submit(self, job: Job, confirmed_at: int) -> None:
        """Hand over one job. Never blocks; jobs submitted in one iteration of the loop are sent in one write.

        Its lease counts from `confirmed_at`, the time at which the statement was sent after which the database has the
        task RUNNING. A job for a child that takes no more jobs (see `remaining`) is reported as waiting when the child
        ends.
        """
        if self.remaining == 0:
            self._too_late.append(job.key)
            return
        self._submitted += 1
        self._queues[job.task_name in self._coroutines].submit(job, confirmed_at)
        if clock() - confirmed_at > self._late_ns:
            self.guard.check()

    def confirm(self, key: str, confirmed_at: int) -> None:
        """Count the lease of this job from a stored beat that shows it alive. An unknown key is ignored."""
        for queue in self._queues:
            if key in queue:
                queue.confirm(key, confirmed_at)

    def is_suspended(self) -> bool:
        """Return whether its process is stopped or frozen, so that no job in it may be reported alive."""
        self._was_suspended = is_suspended(self.pid)
        return self._was_suspended

    def stop_task(self, key: str, code: str = TASK_INTERRUPTED, message: str = "the task was asked to stop") -> None:
        """Stop one job: a waiting job never starts; a running one is interrupted, and its child killed after 5 s.

        The job then ends with `code`, unless its code had returned before. An unknown key is ignored.
        """
        for queue in self._queues:
            if key in queue:
                queue.stop(key, code, message)

    async def stack(self, key: str, *, with_locals: bool) -> Stack | None:
        """Return what this job is doing now, within a second; None if it has not begun or has ended."""
        for kind, queue in enumerate(self._queues):
            if key in queue:
                runs = partial(queue.has_begun, key)
                return await self._stacks.read(kind, queue.number(key), runs, with_locals=with_locals)
        return None

    def before(self, key: str) -> Job | None:
        """Return the job that keeps this one from beginning; None if it has begun, has ended, or is the next."""
        return next((queue.before(key) for queue in self._queues if key in queue), None)

    def read_progress(self) -> None:
        """Pass on the last report of each job that has reported anything."""
        if self.progress.used:
            for queue in self._queues:
                queue.read_progress()

    def hold_results(self, hold: bool) -> None:
        """Stop reading results, so that the child waits before it sends more, or read them again."""
        for queue in self._queues:
            if hold:
                queue.channel.pause()
            else:
                queue.channel.resume()

    def kill(self) -> None:
        self._process.kill()

    def retire(self) -> None:
        """Take no more jobs; the process ends after those that it has."""
        self._finishing = True
        for queue in self._queues:
            queue.channel.finish()

    @property
    def has_ended(self) -> bool:
        return self._gone.done()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await asyncio.shield(self._gone)

    async def close(self, grace_s: float) -> None:
        """Send no more jobs; wait until the submitted ones and the child have ended, or kill it after `grace_s`."""
        self.retire()
        await asyncio.wait([self._gone], timeout=grace_s)
        await self._end()

    def _spawn(self) -> tuple[ChildProcess, list[OutputReader]]:
        channels = self._channels
        guard_pipe, end_of_guard = os.pipe()
        shared = [self._table_fd, self._progress_fd]
        waits_fd, waits = self.spec.waits_fd, self.spec.index * WAIT_BYTES
        shared.append(shared_memory("horsies waits", waits) if waits_fd is None else os.dup(waits_fd))
        descriptors = [*shared, guard_pipe, self._dump, *(channel.child_end.fileno() for channel in channels)]
        pipes = [os.pipe() for _ in _STREAMS]
        numbers = [str(number) for number in (os.getpid(), *descriptors)]
        try:
            process = ChildProcess(
                self._loop,
                # -P: with -m, Python would put the current directory first on the path, where a file can shadow any
                # module.
                [sys.executable, "-P", "-m", "horsies.run.child.main", *numbers],
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                pass_fds=descriptors,
                on_exit=self._exited,
            )
            self.guard.watch(process, self._table_fd, end_of_guard)
        except OSError as error:
            for channel in channels:
                channel.close()
            self.table.close()
            self.progress.close()
            os.close(self._dump)
            for end_of_ours, _ in pipes:
                os.close(end_of_ours)
            raise self._failure(f"no process can be started: {error}", "see `ulimit -u` and the free memory") from error
        finally:
            for _, end_of_child in pipes:
                os.close(end_of_child)
            for descriptor in (*shared, guard_pipe, end_of_guard):
                os.close(descriptor)
        for channel in channels:
            channel.child_end.close()
        spec = self.spec
        self.control.send(
            (
                *(spec.locator, spec.database_url, sys.path, spec.title, spec.log_level, spec.async_concurrency),
                *(self.table.slots[_SPARE_SLOTS], astuple(spec.terms), spec.index),
            )
        )
        return process, [self._output(fd, stream) for (fd, _), stream in zip(pipes, _STREAMS, strict=True)]

    def _output(self, fd: int, stream: Stream) -> OutputReader:
        def emit(key: str | None, line: str) -> None:
            self._recent_lines.append(line)
            self._listener.printed(self, key, stream, line)

        return OutputReader(self._loop, fd, emit, self._only_key)

    def _only_key(self) -> str | None:
        """Return the job that wrote unmarked output, if that can be determined."""
        return next(iter(self.running)) if len(self.running) == 1 else None

    def read_outputs(self) -> None:
        """Pass on the output so far: that of a job comes before its result."""
        for output in self._outputs:
            output.read()

    def _hear(self, messages: list[Any]) -> None:
        for kind, *rest in messages:
            if kind == "stack":
                self._stacks.take_answer(*rest)
                continue
            if kind == "log":
                key, record = rest
                self.read_outputs()  # what was printed before it
                self._recent_lines.append(record[2])
                self._listener.logged(self, key or self._only_key(), record)
                continue
            if self._ready.done():
                return
            if kind == "failed":
                self._ready.set_exception(self._failure("the application cannot be imported there", rest[0]))
            else:
                facts, self.config_text, self.definitions, self._stacks.listener, self._stacks.threads = rest
                self.facts = {name: KnownTask(*each) for name, *each in facts}
                self._coroutines = frozenset(name for name, task in self.facts.items() if task.is_async)
                self._ready.set_result(None)

    def lost(self) -> None:
        """End the child: one of its sockets has closed."""
        self.kill()
        self._process.reap()

    def job_ended(self, key: str, result: ChildResult) -> None:
        """Pass on the rest of its output, then its result; end a child that has run its last job."""
        for output in self._outputs:
            output.job_ended(key)
        self.title.ended()
        if self.remaining == 0 and self.in_flight == 0:
            self.retire()
            self._loop.call_later(_RECYCLE_GRACE_S, self.kill)
        self._listener.ended(self, key, result)

    async def _end(self) -> None:
        self.kill()
        await asyncio.wait([self._gone], timeout=_DEATH_S)

    def _exited(self, returncode: int) -> None:
        self._finishing = True
        self.control.drain()
        lost = LostJobs([], [], [])
        for queue in self._queues:
            queue.on_child_exit(lost)
        self.table.close()
        self.progress.close()
        for output in self._outputs:
            output.finish()
        self.control.close()
        self._stacks.close()
        self.title.close()
        waiting = *lost.waiting, *self._too_late
        end = ChildExit(returncode, tuple(lost.started), waiting, self._cause(returncode, lost.causes))
        if not self._ready.done():
            self._ready.set_exception(self._failure(f"it ended before it was ready: {end.reason}"))
        self._gone.set_result(None)
        if self._is_started:
            self._listener.exited(self, end)

    def _cause(self, returncode: int, causes: list[str]) -> str:
        """Return why it was killed: a job that did not stop, or an expired lease."""
        if returncode != -signal.SIGKILL or not causes:
            return ""
        return f"its process was stopped or frozen; {causes[0]}" if self._was_suspended else causes[0]

    def _failure(self, reason: str, *notes: str) -> ChildFailed:
        words = [f"its last output:\n{chr(10).join(self._recent_lines)}"] if self._recent_lines else []
        return ChildFailed(f"child {self.spec.index} did not start: {reason}", notes=[*notes, *words])
