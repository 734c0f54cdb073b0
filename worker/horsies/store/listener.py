"""The LISTEN connection of a process: reconnected, probed, and with reports of the times when it did not work."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING

from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

_FIRST_PAUSE_S = 0.1
_MAX_PAUSE_IN_PROBES = 3
_MAX_ANSWER_S = 5.0
_CLOSE_TIMEOUT_S = 1.0

_log = logging.getLogger("horsies.listener")


class Listener:
    """Calls back with the payload of each notification on its channels. Payloads are hints: they may be any text.

    A socket can be dead without an error (a firewall dropped its state, a proxy lost its other side), and a pooler
    accepts LISTEN without ever delivering. So after `probe_interval_s` without traffic the listener notifies itself; if
    that does not arrive, the connection is replaced. `on_gap` reports that notifications may have been missed until
    now, or that none will come for a while (`healthy` is False): its users must then poll.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection]],
        *,
        probe_interval_s: float = 10.0,
        on_gap: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._probe_interval_s = probe_interval_s
        self._answer_within_s = min(probe_interval_s, _MAX_ANSWER_S)
        self._on_gap = on_gap
        self._probe_channel = f"horsies_probe_{secrets.token_hex(6)}"
        self._probe_answer: asyncio.Future[None] | None = None
        self._callbacks: dict[str, list[Callable[[str], None]]] = {self._probe_channel: [self._probe_came_back]}
        self._listened: set[str] = set()
        self._heard = False
        self._healthy = False
        self._wake = asyncio.Event()
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def healthy(self) -> bool:
        """True while notifications arrive, according to the last probe."""
        return self._healthy

    def add(self, channel: str, callback: Callable[[str], None]) -> None:
        """Call `callback` from now on; `on_gap` follows once the server listens on a new channel."""
        self._callbacks.setdefault(channel, []).append(callback)
        self._wake.set()

    def remove(self, channel: str, callback: Callable[[str], None]) -> None:
        self._callbacks[channel].remove(callback)
        if not self._callbacks[channel]:
            del self._callbacks[channel]
        self._wake.set()

    async def start(self) -> None:
        """Connect, and stay connected until `close`. Returns after the first attempt; see `healthy` for its result."""
        if self._task is None:
            # An empty context: the first caller's context may keep a request of a web application alive for ever.
            self._task = asyncio.get_running_loop().create_task(self._stay_connected(), context=Context())
        await self._tried.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._task, self._healthy = None, False

    async def _stay_connected(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            try:
                await self._listen_on(await self._connect())
            except CONNECTION_ERRORS as error:
                longest_s = _MAX_PAUSE_IN_PROBES * self._probe_interval_s
                pause = _FIRST_PAUSE_S if self._healthy else min(pause * 2, longest_s)
                if self._healthy or not self._tried.is_set():
                    _log.warning("no notifications, polling until they arrive: %s", error)
                self._healthy = False
                self._on_gap()
            self._tried.set()
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing

    async def _listen_on(self, connection: asyncpg.Connection) -> None:
        """Listen until an error occurs on this connection, which is then closed."""
        connection.add_termination_listener(lambda _connection: self._wake.set())
        self._listened = set()
        try:
            await self._subscribe(connection)
            await self._probe(connection)
            if self._tried.is_set():
                _log.info("notifications arrive again")
            self._healthy = True
            self._tried.set()
            self._on_gap()
            while True:
                await self._wait_for_work(connection)
                if self._listened != self._callbacks.keys():
                    await self._subscribe(connection)
                    self._on_gap()
                elif not self._heard:
                    await self._probe(connection)
                self._heard = False
        except asyncio.CancelledError:
            with suppress(*CONNECTION_ERRORS):
                await connection.close(timeout=_CLOSE_TIMEOUT_S)
            raise
        finally:
            connection.terminate()

    async def _wait_for_work(self, connection: asyncpg.Connection) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._probe_interval_s):
                await self._wake.wait()
        self._wake.clear()
        if connection.is_closed():
            raise ConnectionResetError("the server ended the connection")

    async def _subscribe(self, connection: asyncpg.Connection) -> None:
        wanted = set(self._callbacks)
        async with asyncio.timeout(self._answer_within_s):
            for channel in wanted - self._listened:
                await connection.add_listener(channel, self._deliver)
            for channel in self._listened - wanted:
                await connection.remove_listener(channel, self._deliver)
        self._listened = wanted

    async def _probe(self, connection: asyncpg.Connection) -> None:
        self._probe_answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._answer_within_s):
                await connection.execute(statement(__name__, "notify"), self._probe_channel, "")
                await self._probe_answer
        except TimeoutError:
            raise TimeoutError(f"its own test notification did not arrive within {self._answer_within_s:g} s") from None

    def _probe_came_back(self, _payload: str) -> None:
        if self._probe_answer is not None and not self._probe_answer.done():
            self._probe_answer.set_result(None)

    def _deliver(
        self, _connection: asyncpg.Connection | PoolConnectionProxy, _pid: int, channel: str, payload: object
    ) -> None:
        self._heard = True
        for callback in tuple(self._callbacks.get(channel, ())):
            callback(str(payload))
