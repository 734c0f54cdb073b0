"""The tasks of an `inline()` block, in memory: what is due, its retries, and a clock that skips the waits."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from horsies.domain.states import TaskStatus
from horsies.store.enqueue import Enqueued, EnqueueOutcome
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.testing.here import Ran, next_try, run_here, run_here_async
from horsies.testing.inline_task import InlineTask
from horsies.testing.inline_workflows import InlineWorkflows
from horsies.testing.memory.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from horsies.app import Horsies
    from horsies.registry import AnyTask
    from horsies.store.enqueue import EnqueueRequest
    from horsies.store.loop_thread import CallSteps
    from horsies.store.reading import StoredOutcome
    from horsies.testing.here import EndedRun
    from horsies.testing.inline_workflows import InlineWorkflow
    from horsies.workflow.definition import WorkflowDefinition
    from horsies.workflow.spec import WorkflowSpec

    Wanted: TypeAlias = Callable[[str], bool]


_inside: ContextVar[tuple[InlineTask, ...]] = ContextVar("inside", default=())
"""The tasks that run around the present call, outermost first."""


@contextmanager
def inside(task: InlineTask) -> Iterator[None]:
    before = _inside.set((*_inside.get(), task))
    try:
        yield
    finally:
        _inside.reset(before)


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait until a task that runs elsewhere has ended, at most `seconds`."""

    over: Future[None]
    seconds: float | None

    def here(self) -> None:
        wait([self.over], self.seconds)

    async def in_loop(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(self.over), self.seconds)


class InlineRunning:
    """All methods are called with the lock of the queue, so that no end is missed between a look and a wait."""

    def __init__(self) -> None:
        self._threads: dict[InlineTask, int] = {}
        self._stalled: set[InlineTask] = set()
        """Their runs wait for other tasks. If all of them do, they wait for each other, and no end would ever come."""
        self._waits: list[Future[None]] = []

    def add(self, task: InlineTask) -> None:
        self._threads[task] = threading.get_ident()

    def remove(self, task: InlineTask) -> None:
        self._threads.pop(task, None)  # cancelled and sent again meanwhile, it may have been running twice
        self.wake()

    def wait_for(self, wanted: Wanted, seconds: float | None, *, blocking: bool) -> Wait | None:
        """Return a wait; None if no wanted task is running, or none that can end while the caller waits.

        A blocking wait stops the event loop of this thread, and with it the tasks that run in that loop.
        """
        if (seconds is not None and seconds <= 0) or not any(wanted(task.task_id) for task in self._threads):
            return None
        held = set(_inside.get())
        if blocking:
            held |= {task for task, thread in self._threads.items() if thread == threading.get_ident()}
        if self._threads.keys() <= self._stalled | held:
            return None
        self._stalled |= held
        over: Future[None] = Future()
        over.set_running_or_notify_cancel()  # a cancelled coroutine must not cancel it: `wake` sets its result
        self._waits.append(over)
        return Wait(over, seconds)

    def wake(self) -> None:
        """Wake all waits; those that must still wait begin again."""
        self._stalled.clear()
        for over in self._waits:
            over.set_result(None)
        self._waits.clear()


class Inline:
    """The tasks and workflows of one `inline()` block, and a clock that is ahead of the real one by simulated waits."""

    def __init__(self, app: Horsies, *, at_once: bool, raises: bool) -> None:
        self._tasks = app.tasks
        self._classes = app.storable
        self._at_once = at_once
        self._raises = raises
        self._sent: dict[str, InlineTask] = {}
        self._open: dict[str, InlineTask] = {}
        """Those that have not ended, so that a long test does not look at all of them at each step."""
        self._ahead = timedelta()
        self._lock = threading.RLock()
        self._running = InlineRunning()
        self.workflows = InlineWorkflows(app, Rows(self._sent, self._add_new, self._now, self._lock), self._raise)
        self.raised: BaseException | None = None
        """The exception that was last raised for the test."""
        self._rng = random.Random(0)  # noqa: S311 - jitter, the same in each run of a test

    def sent(self, task: AnyTask | None = None) -> list[InlineTask]:
        """Return the tasks sent so far, in that order: all, or those of one task function."""
        return [each for each in self._sent.values() if task is None or each.task_name == task.task_name]

    def started(
        self, of: str | WorkflowSpec[Any] | type[WorkflowDefinition[Any]] | None = None
    ) -> list[InlineWorkflow]:
        """Return the workflows started so far, in that order, with their sub-workflows: all, or those of one name."""
        name = of if of is None or isinstance(of, str) else of.name
        return [each for each in self.workflows.all() if name is None or each.name == name]

    def run(self, seconds: float = 0) -> Ran:
        """Run everything that is due, and what falls due in the next `seconds`, as if these had passed."""
        return drive_blocking(self.steps(seconds))

    async def run_async(self, seconds: float = 0) -> Ran:
        """`run` for a running event loop: `async def` tasks run in that loop."""
        return await drive_awaited(self.steps(seconds))

    # From here on: called by the broker of the block.

    def add(self, requests: Sequence[EnqueueRequest]) -> list[Enqueued]:
        with self._lock:
            return [self._add_one(request) for request in requests]

    def task_outcome(self, task_id: str) -> StoredOutcome | None:
        task = self._sent.get(task_id)
        return None if task is None else task.outcome

    @property
    def runs_now(self) -> bool:
        """True if a send runs the task now: not inside a task, as in a worker."""
        return self._at_once and not _inside.get()

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def _add_one(self, request: EnqueueRequest) -> Enqueued:
        if (known := self._sent.get(request.task_id)) is not None:
            same = known.request.enqueue_sha == request.enqueue_sha
            return Enqueued(request.task_id, EnqueueOutcome.SAME if same else EnqueueOutcome.MISMATCH)
        if request.unique_key is not None:
            wanted = request.task_name, request.unique_key
            for other in self._open.values():
                live = other.request
                if (live.task_name, live.unique_key) == wanted and not other.is_final:
                    return Enqueued(other.task_id, EnqueueOutcome.LIVE_DUPLICATE, live.args_json, live.kwargs_json)
        self._add_new(request)
        return Enqueued(request.task_id, EnqueueOutcome.CREATED)

    def _add_new(self, request: EnqueueRequest) -> InlineTask:
        due = request.enqueued_at or self._now() + timedelta(seconds=request.delay_seconds or 0)
        *_, max_retries = request.columns()
        known = self._tasks.get(request.task_name)
        parameters = None if known is None else known.parameters
        task = InlineTask(request, due, max_retries, self._classes, parameters)
        self._sent[request.task_id] = self._open[request.task_id] = task
        return task

    def steps(
        self,
        seconds: float | None,
        done: Callable[[], bool] = lambda: False,
        wanted: Wanted = lambda _task_id: False,
        *,
        blocking: bool = True,
    ) -> CallSteps[Ran]:
        """Run tasks until `done`, or nothing is due within the next `seconds` (None: ever).

        Another thread or coroutine may have taken a `wanted` task: then this waits for the end of that run.
        """
        until = None if seconds is None else self._now() + timedelta(seconds=max(seconds, 0))
        ran = Ran()
        while not done():
            ran += self._expire()
            if (task := self._take()) is not None:
                ran += yield from self._step(task)
            elif self.workflows.build_children():
                continue
            elif isinstance(next_one := self._wait_or_pass_time(until, wanted, blocking=blocking), Wait):
                yield from self._wait(next_one)
            elif not next_one:
                return ran + self._expire()
        return ran

    def _step(self, task: InlineTask) -> CallSteps[Ran]:
        try:
            self.workflows.task_started(task.task_id)
            request, function = task.request, self._tasks[task.task_name]
            kwargs = self.workflows.arguments(request.kwargs_json)
            call = function, request.args_json, kwargs, request.task_options, task.current()
            with inside(task):
                ended = yield run_here, run_here_async, call
        except BaseException:  # meant for the test, which may also have been cancelled in the middle of it
            task.unstart()
            raise
        else:
            return self._end(task, ended)
        finally:
            with self._lock:
                self._running.remove(task)

    def _wait(self, wait: Wait) -> CallSteps[None]:
        try:
            yield wait.here, wait.in_loop, ()
        finally:
            with self._lock:
                if not wait.over.done():  # its time is up: the tasks around this call go on
                    self._running.wake()

    def _wait_or_pass_time(self, until: datetime | None, wanted: Wanted, *, blocking: bool) -> Wait | bool:
        """Decide with one look at everything: between two, another thread could take a task that both miss."""
        with self._lock:
            seconds = None if until is None else (until - self._now()).total_seconds()
            wait = self._running.wait_for(wanted, seconds, blocking=blocking)
            return wait or bool(self.workflows.waiting_children()) or self._pass_time(until)

    def _waiting(self) -> list[InlineTask]:
        """Return the tasks that can run. One with a name that the application does not know never can."""
        return [
            each
            for each in self._open.values()
            if each.status is TaskStatus.PENDING
            and each.task_name in self._tasks
            and not self.workflows.rows.is_held(each.task_id)
        ]

    def _expire(self) -> Ran:
        with self._lock:
            now = self._now()
            late = [each for each in self._waiting() if (limit := each.request.good_until) is not None and limit <= now]
            for task in late:
                task.expire(now)
                self._open.pop(task.task_id)
                self.workflows.task_ended(task.task_id)
            return Ran(expired=len(late))

    def _take(self) -> InlineTask | None:
        """Return the first due task, started."""
        with self._lock:
            now = self._now()
            due = [each for each in self._waiting() if each.due <= now]
            if not due:
                return None
            task = min(due, key=lambda each: (each.request.priority, each.due))
            task.start(now)
            self._running.add(task)
            return task

    def _pass_time(self, until: datetime | None) -> bool:
        """Advance the clock to when the next task is due, at most to `until`; False if none is due by then."""
        with self._lock:
            due = min((each.due for each in self._waiting()), default=None)
            within = due is not None and (until is None or due <= until)
            if (moment := due if within else until) is not None:
                self._ahead += max(moment - self._now(), timedelta())
            return within

    def _end(self, task: InlineTask, ended: EndedRun) -> Ran:
        with self._lock:  # the end of a task and what follows from it in its workflow are one step
            if task.status is not TaskStatus.RUNNING:  # cancelled meanwhile: its outcome is not stored
                return Ran()
            now, request = self._now(), task.request
            delay_s, ended = next_try(
                ended,
                request.task_options,
                retry_count=task.retry_count,
                max_retries=task.max_retries,
                now=now,
                good_until=request.good_until,
                rng=self._rng,
            )
            if delay_s is not None:
                task.wait_for_retry(ended, now, now + timedelta(seconds=delay_s))
                return Ran(retried=1)
            task.end(ended, now)
            self._open.pop(task.task_id)
            self.workflows.task_ended(task.task_id)
        self._raise(ended.exception)
        return Ran(completed=1) if ended.ok else Ran(failed=1)

    def _raise(self, exception: BaseException | None) -> None:
        """Raise an exception of user code in the test, if it wants that."""
        if self._raises and exception is not None:
            self.raised = exception
            raise exception
