"""User code that builds a workflow, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


_abandoned: dict[str, list[threading.Thread]] = {}
"""Threads whose caller no longer waits, by their names. Python cannot end one."""


class TooManyHangError(TimeoutError):
    """Earlier work of this name has not ended, long after its time limit."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} earlier {'build has' if count == 1 else 'builds have'} not ended; "
            "give what it waits for a time limit, and restart this process"
        )


async def in_thread(work: Callable[[], T], *, name: str, longest_s: float, most_hanging: int) -> T:
    """Return its result or raise its error; TimeoutError if it takes longer.

    The thread is a daemon: one that hangs prevents neither this loop nor the process from ending. While `most_hanging`
    threads of this name run on after their limit, further work raises TooManyHangError at once: what is tried again for
    ever would otherwise leave a thread behind each time, until the process has no more.
    """
    hanging = _abandoned[name] = [each for each in _abandoned.pop(name, []) if each.is_alive()]
    if not hanging:
        del _abandoned[name]
    elif len(hanging) >= most_hanging:
        raise TooManyHangError(len(hanging))
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return  # the caller no longer waits
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - passed to the caller that waits
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    thread = threading.Thread(target=run, name=f"horsies build {name}", daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(longest_s):
            return await done
    finally:
        if not done.done() or done.cancelled():
            _abandoned.setdefault(name, []).append(thread)
