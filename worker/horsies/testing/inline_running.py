"""The tasks of an `inline()` block that other threads and coroutines are running now, and the waits for their ends."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.testing.inline_task import InlineTask

_inside: ContextVar[tuple[InlineTask, ...]] = ContextVar("inside", default=())
"""The tasks that run around the present call, outermost first."""


@contextmanager
def inside(task: InlineTask) -> Iterator[None]:
    before = _inside.set((*_inside.get(), task))
    try:
        yield
    finally:
        _inside.reset(before)


def is_in_a_task() -> bool:
    return bool(_inside.get())


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

    def wait_for(self, wanted: Callable[[InlineTask], bool], seconds: float | None, *, blocking: bool) -> Wait | None:
        """Return a wait; None if no wanted task is running, or none that can end while the caller waits.

        A blocking wait stops the event loop of this thread, and with it the tasks that run in that loop.
        """
        if (seconds is not None and seconds <= 0) or not any(map(wanted, self._threads)):
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
