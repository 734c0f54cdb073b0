"""User code that builds a workflow, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONGEST_BUILD_S = 30.0
_abandoned: dict[str, list[threading.Thread]] = {}
"""Threads whose caller no longer waits, by their names. Python cannot end one."""


async def build_in_thread(build: Callable[[], T], *, name: str, what: str, most_hanging: int) -> T:
    """Return its result or raise its error; TimeoutError, with a message about `what`, if it takes longer than 30 s.

    The thread is a daemon: one that hangs prevents neither this loop nor the process from ending. While `most_hanging`
    threads of this name run on after their limit, further builds are refused at once: what is tried again for ever
    would otherwise leave a thread behind each time, until the process has no more.
    """
    hanging = _abandoned[name] = [each for each in _abandoned.pop(name, []) if each.is_alive()]
    if not hanging:
        del _abandoned[name]
    elif len(hanging) >= most_hanging:
        raise TimeoutError(
            f"{what} is not built again: {len(hanging)} earlier {'build has' if len(hanging) == 1 else 'builds have'}"
            " not ended; give what it waits for a time limit, and restart this process"
        )
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
            result = build()
        except BaseException as error:  # noqa: BLE001 - passed to the caller that waits
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    thread = threading.Thread(target=run, name=f"horsies build {name}", daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(LONGEST_BUILD_S):
            return await done
    except TimeoutError as error:
        if done.done() and not done.cancelled():
            raise  # of the build itself
        raise TimeoutError(f"{what} was not built within {LONGEST_BUILD_S:g} s") from error
    finally:
        if not done.done() or done.cancelled():
            _abandoned.setdefault(name, []).append(thread)
