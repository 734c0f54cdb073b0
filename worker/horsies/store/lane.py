"""A connection of its own for one loop of the worker."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from horsies.store.connect import Database

# Plans are made once: `id = ANY($1)` may otherwise be planned anew each time, a third of a small batch's cost. One made
# while the table was empty would read all of it later (240 ms for a claim at 100 000 rows), and each statement has its
# index: so no sequential scans here.
_HOT_PATH = (("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off"))
_CACHED_STATEMENTS = 200
# A batch that waits longer for a lock is tried again without the rows that other sessions have locked.
_BRIEFLY = (("lock_timeout", "500ms"),)
_SETTINGS = {
    "worker claim": _BRIEFLY,
    "worker start": _BRIEFLY,
    "worker finish": _BRIEFLY,
    "worker beat": _BRIEFLY,
}
_BRIEFLY_BEHIND_POOLER_S = 2.0


class Lane:
    """One statement at a time, one connection, opened again when it was lost.

    Loops do not share connections: a slow sweep must not hold up the write of an outcome, and the pool of a worker must
    not run dry under its own weight.
    """

    def __init__(self, database: Database, role: str, *, behind_pooler: bool) -> None:
        self._database = database
        self._role = role
        self._behind_pooler = behind_pooler
        self._settings = _SETTINGS.get(role, ())
        self._connection: asyncpg.Connection | None = None
        self._turns = asyncio.Lock()

    async def ready(self) -> asyncpg.Connection:
        """The lane's connection, live as far as this side can know."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        return self._connection

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[asyncpg.Connection]:
        """The connection for one of several loops that share this lane, one after the other."""
        async with self._turns:
            yield await self.ready()

    def briefly(self) -> AbstractAsyncContextManager[None]:
        """A block whose statement waits for no lock for long; LockNotAvailableError when it does.

        A pooler takes no settings for a session: there the statement is cancelled after a while, whatever it does.
        """
        return _cancelled_soon() if self._behind_pooler else nullcontext()

    def discard(self) -> None:
        """Give this connection up: after a timeout its socket may be dead without anybody having said so."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=2)

    async def _connect(self) -> asyncpg.Connection:
        if self._behind_pooler:
            return await self._database.connect(self._role)
        settings = (*_HOT_PATH, *self._settings)
        return await self._database.connect(self._role, settings=settings, statement_cache_size=_CACHED_STATEMENTS)


@asynccontextmanager
async def _cancelled_soon() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_BRIEFLY_BEHIND_POOLER_S):
            yield
    except TimeoutError as error:
        raise asyncpg.LockNotAvailableError("cancelled: it may have waited for a lock") from error


async def is_behind_pooler(database: Database) -> bool:
    """Whether somebody between us and PostgreSQL hands our statements to changing backends.

    A pooler answers the handshake with a process id of its own making; the backend tells its real one.
    """
    connection = await database.connect("probe")
    try:
        return bool(connection.get_server_pid() != await connection.fetchval("SELECT pg_backend_pid()"))
    finally:
        await connection.close()
