"""Connections of one process, opened when needed and kept for reuse."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.errors import HorsiesError
from horsies.store.connect import DatabaseUnavailable

if TYPE_CHECKING:
    from horsies.config.app import PostgresConfig
    from horsies.store.connect import Database

CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, HorsiesError)
"""All errors by which a database, or the network, refuses or fails; TimeoutError is an OSError."""

LOST_CONNECTION = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server's last message has arrived, the end of the stream not yet
    ConnectionError,
)
"""Errors at the next use of a connection that a restart or an administrator has ended."""

# The plan for `id = ANY($1)` is otherwise made each time, because the generic one never looks cheaper.
_SETTINGS = (("plan_cache_mode", "force_generic_plan"), ("jit", "off"))
_CACHED_STATEMENTS = 100
_CLOSE_TIMEOUT_S = 1.0

_log = logging.getLogger("horsies.sql")


class Pool:
    """A pool of connections for one event loop: it opens pool_size + max_overflow and keeps pool_size of them.

    asyncpg's pool is not used: it adds 15 µs to a send and, by default, a round trip to reset the session, and it has
    neither an overflow nor a maximum age, which PostgresConfig offers. A connection is closed unless its last use ended
    with an answer of the server, so none returns to the pool in the middle of a statement.
    """

    def __init__(self, database: Database, config: PostgresConfig, *, role: str, behind_pooler: bool) -> None:
        self._database = database
        self._config = config
        self._role = role
        self._behind_pooler = behind_pooler
        self._most = max(config.pool_size + config.max_overflow, 1)
        self._free_places = asyncio.Semaphore(self._most)
        self._idle: list[asyncpg.Connection] = []
        self._opened_at: dict[asyncpg.Connection, float] = {}
        self._closed = False

    async def acquire(self) -> asyncpg.Connection:
        """Return a connection for the caller; DatabaseUnavailable after pool_timeout, or if none can be opened."""
        await self._take_place()
        try:
            return self._idle_connection() or await self._open()
        except BaseException:
            self._free_places.release()
            raise

    def release(self, connection: asyncpg.Connection, *, sound: bool) -> None:
        """Return the connection; without `sound` it is closed, because it may be in the middle of a statement."""
        self._free_places.release()
        if sound and not connection.is_closed() and len(self._idle) < max(self._config.pool_size, 1):
            self._idle.append(connection)
        else:
            self._drop(connection)

    def drop_idle(self) -> None:
        """Drop the idle connections after one was found lost: the others were probably lost as well."""
        while self._idle:
            self._drop(self._idle.pop())

    async def close(self) -> None:
        """Close idle connections properly; terminate those in use."""
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(
            *(connection.close(timeout=_CLOSE_TIMEOUT_S) for connection in idle), return_exceptions=True
        )
        for connection in tuple(self._opened_at):
            self._drop(connection)

    async def _take_place(self) -> None:
        if not self._free_places.locked():
            await self._free_places.acquire()
            return
        try:
            async with asyncio.timeout(self._config.pool_timeout):
                await self._free_places.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"all {self._most} connections of the pool have been in use for {self._config.pool_timeout} s",
                help_text="raise pool_size or max_overflow in PostgresConfig, or find the code that keeps them so long",
                transient=True,
            ) from None

    def _idle_connection(self) -> asyncpg.Connection | None:
        """Return the connection used last: under little load the others grow old and are closed."""
        recycle = self._config.pool_recycle
        while self._idle:
            connection = self._idle.pop()
            too_old = recycle >= 0 and time.monotonic() - self._opened_at[connection] > recycle
            if not connection.is_closed() and not too_old:
                return connection
            self._drop(connection)
        return None

    async def _open(self) -> asyncpg.Connection:
        if self._closed:
            raise DatabaseUnavailable(
                f"the connections to {self._database.label} have been closed",
                help_text="close the broker only when nothing uses it any more",
                transient=False,
            )
        if self._behind_pooler:
            connection = await self._database.connect(self._role)
        else:
            connection = await self._database.connect(
                self._role, settings=_SETTINGS, statement_cache_size=_CACHED_STATEMENTS, durable=self._config.durable
            )
        if self._config.echo:
            connection.add_query_logger(
                lambda query: _log.info("%s [%.1f ms]", " ".join(query.query.split()), query.elapsed * 1000)
            )
        self._opened_at[connection] = time.monotonic()
        return connection

    def _drop(self, connection: asyncpg.Connection) -> None:
        self._opened_at.pop(connection, None)
        connection.terminate()
