"""The worker's child processes and the room in them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from horsies.domain.trace import run_context
from horsies.run.contract import ChildFailed, ChildSpec, Job
from horsies.run.pool.child import Child
from horsies.run.pool.guard import Guard, memory_for_waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from horsies.domain.progress import Reading
    from horsies.run.contract import ChildExit, ChildResult, LeaseTerms, LogRecord, Stream
    from horsies.run.events import Events
    from horsies.run.pool.output_rings import OutputRings
    from horsies.run.settings import WorkerSettings
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.run.worker.progress_writer import ProgressBook

_SHORT_WORK_S = 0.02  # a child gets this much work ahead, estimated from the durations of its tasks so far
_DEEPEST = 32
_WEIGHT_OF_NEWEST = 0.1
_RETIRE_S = 5.0
_MOST_NAMED = 5
_INTERRUPTED_S = 6.0  # a task that does not stop is killed with its child after 5 s
_RESPAWN_PAUSE_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)


class Slot:
    """The place of one child: a child, or the wait for the next one."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.child: Child | None = None
        self.sync_load = 0
        self.async_load = 0
        self.failures = 0
        self.next: Child | None = None
        """Ready to take over when `child` has ended."""
        self.started = asyncio.Event()
        """Set while there is a child."""


class Slots:
    """Knows which child can take another task, starts children, and replaces those that end."""

    def __init__(
        self,
        settings: WorkerSettings,
        prefetch: int,
        terms: LeaseTerms,
        events: Events,
        *,
        database_url: str,
        title: str,
        outputs: OutputRings,
        progress: ProgressBook,
        traced: bool,
        on_result: Callable[[InFlightTask, ChildResult], None],
        on_lost: Callable[[InFlightTask, str], None],
        on_room: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._prefetch = prefetch
        self._terms = terms
        self._guard: Guard | None = None
        self._waits = os.fdopen(memory_for_waits(settings.processes), "rb", buffering=0)
        self._events = events
        self._database_url = database_url
        self._title = title
        self._outputs = outputs
        self._progress = progress
        self._traced = traced
        self._on_result = on_result
        self._on_lost = on_lost
        self._on_room = on_room
        self._slots = [Slot(index) for index in range(1, settings.processes + 1)]
        self._by_child: dict[Child, Slot] = {}
        self._held: dict[str, InFlightTask] = {}
        self._homeless: deque[Job] = deque()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._mean_s = 1.0
        self._closing = False
        self._results_held = False

    async def start(self) -> None:
        """Start every child; ChildFailed if the application cannot be imported there."""
        ends = await asyncio.gather(*(self._start_child(slot) for slot in self._slots), return_exceptions=True)
        for failure in filter(None, ends):  # only now: no start may outlast the close() that follows a failure
            raise failure

    @property
    def children(self) -> list[Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    def capacity(self, *, is_async: bool) -> int:
        """How many tasks may be in flight, claimed or running, with the children that are alive now."""
        living = len(self._by_child)
        if is_async:
            return living * self._settings.async_concurrency
        return living + self._prefetch if living else 0

    def room(self, *, is_async: bool) -> Slot | None:
        """The child that should get the next task; None while all are busy.

        A child gets a second task only while it finishes its tasks in a few milliseconds: then a task does not wait for
        a round trip to the worker. With prefetch_buffer=0 it gets one only when it is idle.
        """
        if is_async:
            free = [slot for slot in self._ready() if slot.async_load < self._settings.async_concurrency]
            return min(free, key=lambda slot: slot.async_load, default=None)
        depth = 1 if self._prefetch == 0 else max(1, min(_DEEPEST, int(_SHORT_WORK_S / max(self._mean_s, 1e-6))))
        free = [slot for slot in self._ready() if slot.sync_load < depth]
        return min(free, key=lambda slot: slot.sync_load, default=None)

    def _ready(self) -> list[Slot]:
        """The slots whose child still takes tasks; a child that has run max_tasks_per_child is about to exit."""
        return [slot for child, slot in self._by_child.items() if child.remaining != 0]

    def reserve(self, most: int, *, is_async: bool) -> list[Child]:
        """Reserve up to `most` places for tasks that are about to start; a child may be returned more than once."""
        taken: list[Child] = []
        while len(taken) < most and (slot := self.room(is_async=is_async)) is not None and slot.child is not None:
            self._count(slot, +1, is_async=is_async)
            taken.append(slot.child)
        return taken

    def unreserve(self, child: Child, *, is_async: bool) -> None:
        """Free the place of a task that was not claimed or not started after all."""
        slot = self._by_child.get(child)
        if slot is not None:
            self._count(slot, -1, is_async=is_async)

    def submit(self, entry: InFlightTask, args: str | None, kwargs: str | None) -> None:
        """Pass the task to its child, or to another one if that child has ended since the reservation."""
        task = entry.task
        context = run_context(task.queue_name, task.retry_count + 1, task.task_options if self._traced else None)
        times = task.sent_at, task.good_until
        key = f"{entry.task_id}/{next(self._numbers)}"
        job = Job(key, task.task_name, args, kwargs, entry.timeout_ms, context, *times)
        self._held[job.key] = entry
        entry.job = job
        if entry.child in self._by_child:
            entry.child.submit(job, entry.confirmed_at)
        else:
            self._homeless.append(job)
            self._pass_on_unbegun()

    def stop_task(self, entry: InFlightTask) -> None:
        if entry.child is not None and entry.job is not None:
            entry.child.stop_task(entry.job.key)

    def hold_results(self, hold: bool) -> None:
        """Leave results with the children, who wait with them, or read them again."""
        self._results_held = hold
        for child in self.children:
            child.hold_results(hold)

    def take_unbegun(self) -> list[InFlightTask]:
        """Tasks that are RUNNING without a child: the last one ended before their user code began."""
        unbegun = [self._held.pop(job.key) for job in self._homeless]
        self._homeless.clear()
        return unbegun

    async def renew(self, grace_s: float, on_loaded: Callable[[Child], Awaitable[None]]) -> None:
        """Replace every child by one that imports the application anew; ChildFailed if it cannot be imported.

        The first new one is started beside the others, which go on if it fails. Otherwise `on_loaded` gets it when the
        others take nothing more; they end after their tasks, which are interrupted after `grace_s`.
        """
        first = self._slots[0]
        first.next = await self._new_child(first)
        try:
            old = self.children
            for child in old:
                child.retire()
            await on_loaded(first.next)
            await asyncio.gather(*(self._retire(child, grace_s) for child in old))
            await asyncio.gather(*(slot.started.wait() for slot in self._slots))
        finally:
            if first.next is not None:
                await first.next.close(0.0)
                first.next = None

    async def _retire(self, child: Child, grace_s: float) -> None:
        closing = asyncio.create_task(child.close(grace_s + _INTERRUPTED_S))
        await asyncio.wait([closing], timeout=grace_s)
        if not closing.done():
            for entry in reversed([entry for entry in self._held.values() if entry.child is child]):
                entry.interrupted = True
                self.stop_task(entry)
        await closing

    async def close(self, grace_s: float) -> None:
        """End all children; tasks that still run are reported through on_lost."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(child.close(grace_s) for child in self.children))
        if self._guard is not None:
            await self._guard.close()
        self._waits.close()

    def _count(self, slot: Slot, change: int, *, is_async: bool) -> None:
        if is_async:
            slot.async_load += change
        else:
            slot.sync_load += change

    async def _start_child(self, slot: Slot) -> None:
        child, slot.next = slot.next, None
        if child is None or child.remaining == 0:
            child = await self._new_child(slot)
        slot.child, slot.failures, slot.sync_load, slot.async_load = child, 0, 0, 0
        slot.started.set()
        self._by_child[child] = slot
        child.hold_results(self._results_held)
        self._pass_on_unbegun()
        self._on_room()

    async def _new_child(self, slot: Slot) -> Child:
        spec = ChildSpec(
            locator=self._settings.locator,
            database_url=self._database_url,
            index=slot.index,
            async_concurrency=self._settings.async_concurrency,
            max_tasks=self._settings.max_tasks_per_child,
            title=f"horsies: child {slot.index} of {self._title}",
            log_level=self._events.child_level,
            terms=self._terms,
            waits_fd=self._waits.fileno(),
        )
        if self._guard is None or self._guard.ended:
            self._guard = Guard(self._terms, self._guard_ended)
        return await Child.start(spec, self._guard, self)

    def _pass_on_unbegun(self) -> None:
        """Pass jobs that are RUNNING, but whose child ended before their user code began, to a living child."""
        while self._homeless:
            entry = self._held[self._homeless[0].key]
            places = self.reserve(1, is_async=entry.is_async)
            if not places:
                return
            (entry.child,) = places
            entry.child.submit(self._homeless.popleft(), entry.confirmed_at)

    def ended(self, child: Child, key: str, result: ChildResult) -> None:
        entry = self._held.pop(key, None)
        slot = self._by_child.get(child)
        if entry is None:
            return
        self._outputs.ended(entry.task.token)
        if slot is not None:
            self._count(slot, -1, is_async=entry.is_async)
        if not entry.is_async:
            self._mean_s += _WEIGHT_OF_NEWEST * (result.duration_s - self._mean_s)
        self._on_result(entry, result)
        if child.remaining == 0 and child.in_flight == 0:
            self._run(child.close(_RETIRE_S))  # its exit starts the next one

    def printed(self, child: Child, key: str | None, stream: Stream, line: str) -> None:
        entry = None if key is None else self._held.get(key)
        if entry is not None:
            self._outputs.add(entry.task.token, stream, line)
        self._events.output(child.spec.index, key.partition("/")[0] if key else None, stream, line)

    def logged(self, child: Child, key: str | None, record: LogRecord) -> None:
        entry = None if key is None else self._held.get(key)
        if entry is not None:
            level, logger, text, traceback, _, is_formatted = record
            text = text if is_formatted else f"{logging.getLevelName(level)} {logger}: {text}"
            for line in (text if traceback is None else f"{text}\n{traceback}").splitlines():
                self._outputs.add(entry.task.token, "stderr" if level >= logging.WARNING else "stdout", line)
        name = None if entry is None else entry.task.task_name
        self._events.child_log(child.spec.index, key.partition("/")[0] if key else None, name, record)

    def reported(self, key: str, reading: Reading) -> None:
        entry = self._held.get(key)
        if entry is not None:
            self._progress.heard(entry, reading)

    def exited(self, child: Child, end: ChildExit) -> None:
        slot = self._by_child.pop(child, None)
        if slot is None:
            return  # it never became ready: start() has reported that
        slot.child = None
        slot.started.clear()
        self._events.child_exited(slot.index, child.pid, end.reason, len(end.started))
        died = [entry for key in end.started if (entry := self._held.pop(key, None)) is not None]
        for entry in died:
            self._outputs.ended(entry.task.token)
            self._on_lost(entry, _how(entry, end, died))
        for key in end.waiting:
            if (entry := self._held.get(key)) is not None and entry.job is not None:
                self._homeless.append(entry.job)
        self._pass_on_unbegun()
        if not self._closing:
            self._run(self._replace(slot))

    def _guard_ended(self, guard: Guard, returncode: int) -> None:
        """On Linux the kernel has killed its children already."""
        self._events.warn("guard ended", pid=guard.pid, returncode=returncode)
        for child in self.children:
            if child.guard is guard:
                child.kill()

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, slot: Slot) -> None:
        """Start the next child; after a failure it is tried again, at growing intervals."""
        while True:
            await asyncio.sleep(_RESPAWN_PAUSE_S[min(slot.failures, len(_RESPAWN_PAUSE_S) - 1)])
            try:
                await self._start_child(slot)
            except (ChildFailed, OSError) as error:
                slot.failures += 1
                self._events.warn("child did not start", child=slot.index, error=str(error), failures=slot.failures)
            else:
                return


def _how(entry: InFlightTask, end: ChildExit, died: list[InFlightTask]) -> str:
    """How the child died under this task, and its other running tasks: one of these may be the cause."""
    others = [f"{each.task_id} ({each.task.task_name})" for each in died if each is not entry]
    if not others:
        return end.reason
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return f"{end.reason}; died beside task {', '.join(others[:_MOST_NAMED])}{more}"
