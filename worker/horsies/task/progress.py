"""`progress` and `track`: how a task says how far it has come."""

from __future__ import annotations

from contextvars import ContextVar
from operator import length_hint
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator

ItemT = TypeVar("ItemT")
Report: TypeAlias = "Callable[[Any, Any, Any], None]"


class ReportingRun(Protocol):
    """A run of a task in this process. `report` is None until the task reports for the first time."""

    report: Report | None
    tracked: bool
    """A `track` is counting."""

    def open_report(self) -> Report:
        """Set `report`."""
        ...


_here: ContextVar[ReportingRun | None] = ContextVar("horsies_progress", default=None)
_running: set[ReportingRun] = set()


def progress(done: float, total: float | None = None, unit: str | None = None) -> None:
    """Say how far this task has come: `progress(3_400, 10_000, "rows")`. Without a total a count is shown.

    Call it as often as you like: it costs a fraction of a microsecond, and the worker stores the newest report once a
    second. It never fails. What is no number is ignored, a negative `done` is 0, and a total that is not above 0 is
    none. Outside of a task, and in processes that a task starts, it does nothing.

    A thread that the task has started reports for it, too; if several tasks run in one process (async ones do), only
    one that has the context of its task, as `asyncio.to_thread` gives it.
    """
    run = _here.get() or _only_run()
    if run is not None:
        (run.report or run.open_report())(done, total, unit)


@overload
def track(items: Iterable[ItemT], total: float | None = None, unit: str | None = None) -> Iterable[ItemT]: ...
@overload
def track(items: AsyncIterable[ItemT], total: float | None = None, unit: str | None = None) -> AsyncIterable[ItemT]: ...
def track(items: Any, total: float | None = None, unit: str | None = None) -> Any:
    """The same items; each counts as done when the loop asks for the next: `for row in track(rows, unit="rows")`.

    Also `async for`. The total is the length of `items`, if that has one. A `track` inside of another one of the same
    task counts nothing: the outer one shows how far the task is.
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

    def _begin(self) -> ReportingRun | None:
        """The run that this loop counts for, marked as tracked; None if it counts nothing."""
        run = _here.get() or _only_run()
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


def begin_reports(run: ReportingRun) -> None:
    """User code of this run is about to be called, in this context."""
    _here.set(run)
    _running.add(run)


def end_reports(run: ReportingRun) -> None:
    """Its user code has ended. What it has left running reports nothing any more."""
    _running.discard(run)
    run.report = _nothing


def forget_runs() -> None:
    """This process was forked from one with runs, which are not its own."""
    for run in _running:
        run.report = _nothing
    _running.clear()


def _only_run() -> ReportingRun | None:
    """Of a thread without the context of a task: the only run in this process."""
    if len(_running) != 1:
        return None
    try:
        (run,) = _running
    except (ValueError, RuntimeError):  # another one has begun, or this one has ended, at this moment
        return None
    return run


def _nothing(_done: Any, _total: Any, _unit: Any) -> None: ...
