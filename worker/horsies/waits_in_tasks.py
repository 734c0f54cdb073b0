"""The warning of a task that waits for another one inside its run, which blocks its child: logged once per name."""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.domain.codes import OperationalErrorCode, RetrievalCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.domain.task_result import TaskError, TaskResult

_log = logging.getLogger("horsies")


class RunningTask(NamedTuple):
    task_name: str
    is_async: bool


RUNNING_HERE: ContextVar[RunningTask | None] = ContextVar("task that runs here", default=None)
"""Set while the user code of a task runs. Not by a context manager: that would add 1.3 µs to a run of 2."""
_told: set[str] = set()
_MAY_COME: Final = (RetrievalCode.WAIT_TIMEOUT, OperationalErrorCode.BROKER_ERROR)
"""Also where the database cannot be reached at the moment: a wait has patience with that, a single look has none."""


def waited_for(
    read: Callable[[int | None], TaskResult[Any, TaskError]], timeout_ms: int | None
) -> TaskResult[Any, TaskError]:
    """Return what `read` returns, which blocks this thread. If a task runs in it, log that, once per name."""
    running = RUNNING_HERE.get()
    if timeout_ms == 0 or running is None or (running.is_async and not _in_event_loop()):
        return read(timeout_ms)
    found = read(0)
    if found.err is None or found.err.error_code not in _MAY_COME:
        return found
    with _counted_among_siblings() as waiting:
        if running.task_name not in _told:
            _told.add(running.task_name)
            _log.warning("%s", _words(running, waiting))
        return read(timeout_ms)


def _in_event_loop() -> bool:
    """Return whether this thread runs a loop. Not so in `asyncio.to_thread`, where a wait blocks nothing."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises where there is none


def _words(running: RunningTask, waiting: int) -> str:
    told = f"task {running.task_name!r} waits for a result inside of its run, with a blocking get()"
    if running.is_async:
        return f"{told}: until it comes, nothing else runs in the event loop of its child; use await get_async()"
    children = "1 child of its worker waits" if waiting == 1 else f"{waiting} children of its worker wait"
    return (
        f"{told}: {children} like this now, and when all do, none is left to run what they wait for; make both nodes of"
        " a workflow, or this an async def task that uses await get_async()"
    )


WAIT_BYTES: Final = 8


class SiblingWaits:
    """The children of a worker that wait, in memory that they share: each one's process id in its place while it waits.

    A child that was killed leaves its id, which then counts no more.
    """

    def __init__(self, fd: int, place: int) -> None:
        """`fd` stays open and belongs to the caller."""
        self._ids: memoryview[int] = memoryview(mmap.mmap(fd, 0)).cast("q")
        self._place = place

    def begin(self) -> int:
        """Return how many wait, this one included."""
        self._ids[self._place] = os.getpid()
        return sum(_lives(pid) for pid in self._ids)

    def end(self) -> None:
        self._ids[self._place] = 0


_siblings: SiblingWaits | None = None
"""None outside of a worker's children."""


def share_waits(siblings: SiblingWaits) -> None:
    """Count the waits of this child with those of its siblings."""
    global _siblings  # noqa: PLW0603 - one per process, set before any task runs
    _siblings = siblings


@contextmanager
def _counted_among_siblings() -> Iterator[int]:
    """Yield how many children of this worker wait, this one included."""
    if _siblings is None:
        yield 1
        return
    try:
        yield _siblings.begin()
    finally:
        _siblings.end()


def _lives(pid: int) -> bool:
    if pid == 0:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
