"""The tasks in flight in this worker: their children, the room for more, the way of each from its claim to its end."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from typing import TYPE_CHECKING

from horsies.domain.trace import run_context
from horsies.run.contract import Job, task_id_of
from horsies.run.loops import Wake
from horsies.run.pool.output import OutputRings
from horsies.run.settings import Identity
from horsies.run.worker.claim_rules import ClaimRules
from horsies.run.worker.in_flight import InFlightTasks, ProgressBook
from horsies.run.worker.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.app import Horsies
    from horsies.domain.progress_pace import Reading
    from horsies.run.contract import ChildExit, ChildResult, LogRecord, Stream
    from horsies.run.events import Events
    from horsies.run.pool.child import Child
    from horsies.run.settings import WorkerSettings
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.store.dedicated_connection import DedicatedConnection

_SHORT_WORK_S = 0.02  # a child gets this much work ahead, estimated from the durations of its tasks so far
_DEEPEST = 32
_WEIGHT_OF_NEWEST = 0.1
_MOST_NAMED = 5


class TaskFlow:
    """The owner of what is in flight. Children report to it; loops wait for its signals, and take their work from it.

    `claim` and `start` wake the loops that claim and start; `quiet` is set when something in flight was settled.
    """

    def __init__(self, app: Horsies, settings: WorkerSettings, events: Events) -> None:
        self.app, self.settings, self.events, self.identity = app, settings, events, Identity()
        self.rules = ClaimRules(app, settings, self.identity)
        self.claim, self.start, self.quiet = Wake(), Wake(), Wake()
        self.when_enqueued: list[Callable[[], None]] = []
        """Called when tasks may have become claimable, in any queue."""
        self.tasks = InFlightTasks()
        self.outputs, self.progress = OutputRings(), ProgressBook()
        self.outbox = Outbox(self.identity, self.tasks, self.outputs, app.config.failed_output_bytes, events)
        self._claims_on_end = self.rules.claims_on_end
        self._prefetch = app.config.prefetch_buffer
        self._async_concurrency = settings.async_concurrency
        self._traced = app.tracing is not None
        self._loads: dict[Child, list[int]] = {}
        """Number of slots of each living child that are taken or reserved: by plain tasks, by async tasks."""
        self._submitted: dict[str, InFlightTask] = {}
        self._without_child: deque[InFlightTask] = deque()
        """RUNNING, and their child has ended before their user code began."""
        self._numbers = itertools.count(1)
        self._mean_s = 1.0
        self._throttled = False

    # Signals

    def has_room(self) -> None:
        """Wake the loops that claim and start: a slot, or room under a limit, may have become free."""
        self.claim.set()
        self.start.set()

    def enqueued(self) -> None:
        """Call them: tasks may have become claimable, in any queue."""
        for notice in self.when_enqueued:
            notice()

    def throttle(self) -> None:
        """Leave results with the children while too many wait here to be stored, or read them again."""
        if self.outbox.is_full is not self._throttled:
            self._throttled = self.outbox.is_full
            for child in self._loads:
                child.hold_results(self._throttled)

    # Room

    @property
    def children(self) -> list[Child]:
        return list(self._loads)

    def capacity(self, *, is_async: bool) -> int:
        """Return how many tasks may be in flight, claimed or running, with the children that are alive now."""
        living = len(self._loads)
        if is_async:
            return living * self._async_concurrency
        return living + self._prefetch if living else 0

    def reserve(self, most: int, *, is_async: bool) -> list[Child]:
        """Reserve up to `most` slots for tasks that are about to start; a child may be returned more than once."""
        taken: list[Child] = []
        while len(taken) < most and (child := self._least_loaded(is_async=is_async)) is not None:
            self._loads[child][is_async] += 1
            taken.append(child)
        return taken

    def unreserve(self, child: Child, *, is_async: bool) -> None:
        """Free the slot of a task that was not claimed or not started after all."""
        if child in self._loads:
            self._loads[child][is_async] -= 1

    def _least_loaded(self, *, is_async: bool) -> Child | None:
        """Return the child that should get the next task; None while all are busy.

        A child gets a second task only while it finishes its tasks in a few milliseconds: then a task does not wait for
        a round trip to the worker. With prefetch_buffer=0 it gets one only when it is idle. One that has run
        max_tasks_per_child is about to exit.
        """
        if is_async:
            depth = self._async_concurrency
        elif self._prefetch == 0:
            depth = 1
        else:
            depth = max(1, min(_DEEPEST, int(_SHORT_WORK_S / max(self._mean_s, 1e-6))))
        free = [child for child, taken in self._loads.items() if taken[is_async] < depth and child.remaining != 0]
        return min(free, key=lambda child: self._loads[child][is_async], default=None)

    # Jobs

    def submit(self, entry: InFlightTask, args: str | None, kwargs: str | None) -> None:
        """Pass the task to its child, or to another one if that child has ended since the reservation."""
        task = entry.task
        context = run_context(task.queue_name, task.retry_count + 1, task.task_options if self._traced else None)
        key = f"{entry.task_id}/{next(self._numbers)}"
        times = task.sent_at, task.good_until
        entry.job = job = Job(key, task.task_name, args, kwargs, entry.timeout_ms, context, *times)
        self._submitted[key] = entry
        if entry.child in self._loads:
            entry.child.submit(job, entry.confirmed_at)
        else:
            self._without_child.append(entry)
            self._find_children()

    def stop(self, entry: InFlightTask) -> None:
        if entry.child is not None and entry.job is not None:
            entry.child.stop_task(entry.job.key)

    def interrupt(self, child: Child) -> None:
        """Stop its tasks, as the stop of the worker does."""
        for entry in reversed([entry for entry in self._submitted.values() if entry.child is child]):
            entry.interrupted = True
            self.stop(entry)

    def take_unbegun(self) -> list[InFlightTask]:
        """Take tasks that are RUNNING without a child: the last one ended before their user code began."""
        unbegun = list(self._without_child)
        self._without_child.clear()
        for entry in unbegun:
            if entry.job is not None:
                del self._submitted[entry.job.key]
        return unbegun

    def _find_children(self) -> None:
        """Pass tasks that are RUNNING without a child to living children."""
        while self._without_child:
            reserved = self.reserve(1, is_async=self._without_child[0].is_async)
            if not reserved:
                return
            entry = self._without_child.popleft()
            assert entry.job is not None
            (entry.child,) = reserved
            entry.child.submit(entry.job, entry.confirmed_at)

    # Reports of the children

    def joined(self, child: Child) -> None:
        """Give jobs to a child that is ready."""
        self._loads[child] = [0, 0]
        child.hold_results(self._throttled)
        self._find_children()
        self.has_room()

    def ended(self, child: Child, key: str, result: ChildResult) -> None:
        """Put the outcome of a job into the outbox, and free its slot."""
        entry = self._submitted.pop(key, None)
        if entry is None:
            return
        self.outputs.ended(entry.task.token)
        self.unreserve(child, is_async=entry.is_async)
        if not entry.is_async:
            self._mean_s += _WEIGHT_OF_NEWEST * (result.duration_s - self._mean_s)
        self.outbox.result(entry, result)
        self.throttle()
        self.start.set()
        if self._claims_on_end:
            self.claim.set()

    def exited(self, child: Child, end: ChildExit) -> None:
        """Count the tasks that ran in it as crashed; those that had not begun go to another child."""
        if self._loads.pop(child, None) is None:
            return  # it has not taken over yet
        self.events.child_exited(child.spec.index, child.pid, end.reason, len(end.started))
        died = [entry for key in end.started if (entry := self._submitted.pop(key, None)) is not None]
        for entry in died:
            self.outputs.ended(entry.task.token)
            self.outbox.crashed(entry, _how(entry, end, died))
        self.throttle()
        self._without_child.extend(self._submitted[key] for key in end.waiting if key in self._submitted)
        self._find_children()

    def printed(self, child: Child, key: str | None, stream: Stream, line: str) -> None:
        entry = None if key is None else self._submitted.get(key)
        if entry is not None:
            self.outputs.add(entry.task.token, stream, line)
        self.events.output(child.spec.index, None if key is None else task_id_of(key), stream, line)

    def logged(self, child: Child, key: str | None, record: LogRecord) -> None:
        entry = None if key is None else self._submitted.get(key)
        if entry is not None:
            level, logger, text, traceback, _, is_formatted = record
            text = text if is_formatted else f"{logging.getLevelName(level)} {logger}: {text}"
            for line in (text if traceback is None else f"{text}\n{traceback}").splitlines():
                self.outputs.add(entry.task.token, "stderr" if level >= logging.WARNING else "stdout", line)
        name = None if entry is None else entry.task.task_name
        self.events.child_log(child.spec.index, None if key is None else task_id_of(key), name, record)

    def reported(self, key: str, reading: Reading) -> None:
        entry = self._submitted.get(key)
        if entry is not None:
            self.progress.add(entry, reading)


class WorkerLoop:
    """A loop of the worker, with its connection and what it shares with the others."""

    step_timeout_s = 20.0

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow) -> None:
        self.dedicated = dedicated
        self.wake = Wake()
        self._flow = flow
        self._events = flow.events
        self._rules = flow.rules
        self._worker_id = flow.identity.worker_id


def _how(entry: InFlightTask, end: ChildExit, died: list[InFlightTask]) -> str:
    """Say how the child died under this task, and its other running tasks: one of these may be the cause."""
    others = [f"{each.task_id} ({each.task.task_name})" for each in died if each is not entry]
    if not others:
        return end.reason
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return f"{end.reason}; died beside task {', '.join(others[:_MOST_NAMED])}{more}"
