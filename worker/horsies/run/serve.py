"""A worker or a scheduler as the main program of its process: handles signals, exits after a clean stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.events import Events


class Service(Protocol):
    """What runs until it is stopped; `abort` follows a start() that failed half-way, `hurry` a second signal."""

    events: Events

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def abort(self) -> None: ...

    def hurry(self) -> None: ...


async def serve(service: Service, *, on_ready: Callable[[], None]) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP, then stop gracefully; a second SIGTERM or SIGINT stops at once.

    The end of a session in a terminal sends SIGHUP more than once, from the kernel and from the shell. Under nohup it
    is ignored.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def on_signal(name: str) -> None:
        if stopping.is_set() and name == signal.SIGHUP.name:
            return
        if stopping.is_set():
            service.events.warn("stopping at once", signal=name)
            service.hurry()
        else:
            stopping.set()
            service.events.note("stopping", signal=name)

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number.name)
    try:
        if await _started(service, stopping):
            with suppress(OSError):  # the terminal in which it would print was closed meanwhile
                on_ready()
            await stopping.wait()
            await service.stop()
            service.events.note("stopped")
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            # The stop is complete: another signal during the exit must not turn exit code 0 into -15.
            signal.signal(number, signal.SIG_IGN)


async def _started(service: Service, stopping: asyncio.Event) -> bool:
    """Whether it runs; False if it was stopped while it still waited for its database."""
    starting = asyncio.create_task(service.start())
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
        await service.abort()
        raise
    await service.abort()
    return False
