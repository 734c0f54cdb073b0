"""A worker as the main program of its process: handles signals, exits after a clean stop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.worker import Worker


async def serve(worker: Worker, *, on_ready: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT, then stop gracefully; a second signal stops at once."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def on_signal(name: str) -> None:
        if stopping.is_set():
            worker.events.warn("stopping at once", signal=name)
            worker.hurry()
        else:
            worker.events.note("stopping", signal=name)
            stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number.name)
    try:
        if await _started(worker, stopping):
            on_ready()
            await stopping.wait()
            await worker.stop()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            # The stop is complete: another signal during the exit must not turn exit code 0 into -15.
            signal.signal(number, signal.SIG_IGN)


async def _started(worker: Worker, stopping: asyncio.Event) -> bool:
    """Whether the worker runs; False if it was stopped while it still waited for its database."""
    starting = asyncio.create_task(worker.start())
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    try:
        if starting.done():
            await starting
            return True
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    except BaseException:
        await worker.abort()
        raise
    await worker.abort()
    return False
