"""`progress` and `track`: how a task reports its progress."""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from horsies.task.current import run_here

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    from horsies.task.current import Run

ItemT = TypeVar("ItemT")


def progress(done: float, total: float | None = None, unit: str | None = None) -> None:
    """Say how far this task has come: `progress(3_400, 10_000, "rows")`. Without a total a count is shown.

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
        """The run that this loop counts for, marked as tracked; None if it counts nothing."""
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
