"""A worker or a scheduler as the main program of its process: its database, its signals, its clean stop."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from horsies.run.log_format import Seconds
from horsies.run.loops import backoff_s
from horsies.store.connect import Database, DatabaseUnavailable, open_database
from horsies.store.schema import create, require_current

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.app import Horsies
    from horsies.run.events import Events


class Service(ABC):
    """A program that runs until it is stopped."""

    events: Events

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    async def abort(self) -> None:
        """Release the resources of a start() that failed half-way."""
        await self.stop()

    def hurry(self) -> None:  # noqa: B027 - optional
        """Stop at once: a second signal has come. A stop that waits for one statement at most need not change."""


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
            service.events.warn("stopping immediately", signal=name)
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
    """Start it; return False if it was stopped while it still waited for its database."""
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


async def wait_for_database(app: Horsies, events: Events, resources: AsyncExitStack) -> Database:
    """Wait for the database without a limit, at the pace of the resilience settings, and bring its schema up to date.

    `resources` releases it.
    """
    resilience, failures = app.config.resilience, 0
    while True:
        stack = AsyncExitStack()
        try:
            database = await stack.enter_async_context(open_database(app.database))
            connection = await database.connect("worker start")
            try:
                await create(connection)
                await require_current(connection)
            finally:
                await connection.close()
        except DatabaseUnavailable as error:
            await stack.aclose()
            failures += 1
            if not error.transient or failures == resilience.db_retry_max_attempts:
                raise
            delay = backoff_s(resilience, failures)
            events.warn("waiting for the database", reason=error.message, again_in=Seconds(delay))
            await asyncio.sleep(delay)
        except BaseException:
            await stack.aclose()
            raise
        else:
            resources.push_async_callback(stack.aclose)
            return database
