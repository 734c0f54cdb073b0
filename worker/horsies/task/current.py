"""The task whose code is running: `current_task()`, and its reports by `progress()` and `track()`."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, MutableMapping

    from horsies.workflow.context import WorkflowMeta


DefaultT = TypeVar("DefaultT")
Report: TypeAlias = "Callable[[Any, Any, Any], None]"

LOGGER: Final = logging.getLogger("horsies.task")


@dataclass(frozen=True, slots=True)
class CurrentTask:
    """The run of a task: what its row said when it was claimed."""

    id: str
    name: str
    attempt: int
    """1 for the first run."""
    queue: str
    sent_at: datetime | None
    """None if the row does not say it, as one that was inserted by hand."""
    deadline: datetime | None
    """`good_until` of the send."""
    workflow: WorkflowMeta | None
    """Its workflow and its node there, if it is a node."""

    @property
    def logger(self) -> TaskLogger:
        """The logger `horsies.task`; its records have the fields `task`, `id`, `queue`, `attempt`, and of a node also
        `workflow` and `node`."""
        return TaskLogger(LOGGER, self.log_fields())

    def log_fields(self) -> dict[str, object]:
        """Return fields for the `extra` of a record. `node` is the node_id, or the index of a node without one."""
        fields: dict[str, object] = {"task": self.name, "id": self.id, "queue": self.queue, "attempt": self.attempt}
        if self.workflow is not None:
            place = self.workflow
            fields |= {"workflow": place.workflow_id, "node": place.node_id or place.task_index}
        return fields


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the task's fields to the `extra` of a call; LoggerAdapter itself would replace that up to Python 3.12."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


class Run(Protocol):
    """A run of a task in this process. `report` is None until the task reports its progress for the first time."""

    report: Report | None
    tracked: bool
    """A `track` is counting."""

    def open_report(self) -> Report:
        """Set `report`."""
        ...

    def describe(self) -> CurrentTask | None:
        """Return the current task; None after its end."""
        ...


_here: ContextVar[Run | None] = ContextVar("horsies_run", default=None)
_running: set[Run] = set()


@overload
def current_task() -> CurrentTask: ...
@overload
def current_task(default: DefaultT, /) -> CurrentTask | DefaultT: ...
def current_task(*default: Any) -> Any:
    """Return the task whose code is running: its id, name, attempt, queue, times, place in a workflow, and a logger.

    Outside of a task it raises RuntimeError with the reason, or returns the default if one is given:
    `current_task(None)`.

    Also in threads and coroutines that the task has started. If several tasks run in one process, as `async def` ones
    do, a thread must have the context of its task, as `asyncio.to_thread` gives it.
    """
    run = run_here()
    task = None if run is None else run.describe()
    if task is not None:
        return task
    if default:
        return default[0]
    if run is not None:
        reason = "the task that has started this code has ended"
    elif _running:
        reason = f"{len(_running)} tasks run in this process, and this thread has the context of none of them; "
        reason += "asyncio.to_thread and contextvars.copy_context().run give it"
    else:
        reason = "no task runs in this process"
    raise RuntimeError(f"current_task() was called outside of a task: {reason}; current_task(None) returns None there")


def run_here() -> Run | None:
    """Return the run of this context; in a thread without the context of a task, the only run of this process."""
    return _here.get() or _only_run()


def begin_run(run: Run) -> None:
    """Begin a run: its user code is about to be called, in this context."""
    _here.set(run)
    _running.add(run)


def end_run(run: Run) -> None:
    """End a run: code that it has left running cannot report any more."""
    _running.discard(run)
    run.report = ignore_report


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Inside this block its user code runs; afterwards the context is as it was before."""
    before = _here.get()
    begin_run(run)
    try:
        yield
    finally:
        end_run(run)
        _here.set(before)


def forget_runs() -> None:
    """Forget the runs of the process from which this one was forked."""
    for run in _running:
        run.report = ignore_report
    _running.clear()


def moment(seconds: float | None) -> datetime | None:
    """Convert seconds; None also for a time that Python cannot express: PostgreSQL has infinity, years before 1."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def ignore_report(_done: Any, _total: Any, _unit: Any) -> None:
    """Ignore a report: the `report` of a run whose progress is not kept."""


def _only_run() -> Run | None:
    if len(_running) != 1:
        return None
    try:
        (run,) = _running
    except (ValueError, RuntimeError):  # another one has begun, or this one has ended, at this moment
        return None
    return run


ItemT = TypeVar("ItemT")


def progress(done: float, total: float | None = None, unit: str | None = None) -> None:
    """Report how far this task has come: `progress(3_400, 10_000, "rows")`. Without a total a count is shown.

    Call it as often as you like: it costs a fraction of a microsecond, and the worker stores the newest report once a
    second. It never fails. What is no number is ignored, a negative `done` is 0, and a total that is not above 0 is
    none. Outside of a task, and in processes that a task starts, it does nothing.

    A thread that the task has started reports for it, too; if several tasks run in one process (async ones do), only
    one that has the context of its task, as `asyncio.to_thread` gives it.
    """
    run = run_here()
    if run is not None:
        (run.report or run.open_report())(done, total, unit)


@overload
def track(items: Iterable[ItemT], total: float | None = None, unit: str | None = None) -> Iterable[ItemT]: ...
@overload
def track(items: AsyncIterable[ItemT], total: float | None = None, unit: str | None = None) -> AsyncIterable[ItemT]: ...
def track(items: Any, total: float | None = None, unit: str | None = None) -> Any:
    """Yield the same items; each counts as done when the loop asks for the next: `for row in track(rows, unit="rows")`.

    Also `async for`. The total is the length of `items`, if that has one. A `track` inside a `track` of the same task
    counts nothing: the outer one shows the task's progress.
    """
    return _Tracked(items, total, unit)


class _Tracked(Generic[ItemT]):
    def __init__(self, items: Any, total: float | None, unit: str | None) -> None:
        self._items = items
        self._total = total
        self._unit = unit

    def __iter__(self) -> Iterator[ItemT]:
        run = self._begin()
        if run is None:
            yield from self._items
            return
        total, unit = self._total, self._unit
        try:
            for done, item in enumerate(self._items, 1):
                yield item
                (run.report or run.open_report())(done, total, unit)
        finally:
            run.tracked = False

    async def __aiter__(self) -> AsyncIterator[ItemT]:
        run, done = self._begin(), 0
        try:
            async for item in self._items:
                yield item
                if run is not None:
                    done += 1
                    (run.report or run.open_report())(done, self._total, self._unit)
        finally:
            if run is not None:
                run.tracked = False

    def _begin(self) -> Run | None:
        """Return the run that this loop counts for, marked as tracked; None if it counts nothing."""
        run = run_here()
        if run is None or run.tracked:
            return None
        if self._total is None:
            try:
                self._total = length_hint(self._items, -1)
            except Exception:  # noqa: BLE001 - a length that cannot be read is none; the loop itself may work
                self._total = None
        (run.report or run.open_report())(0, self._total, self._unit)
        run.tracked = True
        return run
