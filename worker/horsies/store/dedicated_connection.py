"""A connection for one loop of the worker, which no other loop shares."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import asyncpg

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from horsies.config.url import DatabaseUrl
    from horsies.store.connect import Database

# Plans are made once: `id = ANY($1)` may otherwise be planned each time, a third of a small batch's cost. A plan made
# while the table was empty would read all of it later (240 ms for a claim at 100 000 rows), and each statement has its
# index: so sequential scans are disabled.
_HOT_PATH = (("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off"))
_CACHED_STATEMENTS = 200
# After this wait for a lock, the batch is repeated without the rows that other sessions have locked.
_SHORT_LOCK_TIMEOUT = (("lock_timeout", "500ms"),)
# Advances and sweeps wait only briefly for a row: they skip it and return later, so that one lock does not block
# others.
_SETTINGS = {
    "worker claim": _SHORT_LOCK_TIMEOUT,
    "worker start": _SHORT_LOCK_TIMEOUT,
    "worker finish": _SHORT_LOCK_TIMEOUT,
    "worker beat": _SHORT_LOCK_TIMEOUT,
    "worker advance": (("lock_timeout", "300ms"),),
    "worker recovery": (("lock_timeout", "1s"),),
    "worker retention": (("lock_timeout", "5s"),),
}
_POOLER_CANCEL_AFTER_S = 2.0
_TASKS_ON_THEIR_WAY = frozenset({"worker claim", "worker start", "worker finish", "worker advance"})


class DedicatedConnection:
    """A connection for one statement at a time, reopened when it was lost.

    Loops do not share connections: a slow sweep must not delay the write of an outcome, and the worker must not exhaust
    a pool.
    """

    def __init__(self, database: Database, role: str, *, behind_pooler: bool, durable: bool = True) -> None:
        """Let commits for tasks in flight reach the disk if `durable`, even if the server would not wait for that."""
        self._database = database
        self._role = role
        self._settings = _SETTINGS.get(role, ())
        self._durable = durable and role in _TASKS_ON_THEIR_WAY
        self._behind_pooler = behind_pooler
        self._connection: asyncpg.Connection | None = None
        self._was_lost = False
        self.reconnects = 0
        """Number of times that a lost connection was replaced."""
        self._lock = asyncio.Lock()

    @property
    def use(self) -> str:
        """Name of the loop that uses the connection, such as `claim` or `beat`."""
        return self._role.removeprefix("worker ")

    @property
    def url(self) -> DatabaseUrl:
        return self._database.url

    async def ready(self) -> asyncpg.Connection:
        """Return an open connection, as far as this process can know."""
        if self._connection is None or self._connection.is_closed():
            self._was_lost = self._was_lost or self._connection is not None
            self._connection = await self._connect()
            self.reconnects += self._was_lost
            self._was_lost = False
        return self._connection

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[asyncpg.Connection]:
        """Lend the connection to one of several loops that share it, one after the other."""
        async with self._lock:
            yield await self.ready()

    def briefly(self) -> AbstractAsyncContextManager[None]:
        """A block whose statement waits only briefly for a lock, and then raises LockNotAvailableError.

        A pooler takes no settings for a session: behind one, the statement is cancelled after 2 s, also if it does not
        wait.
        """
        return _cancelled_soon() if self._behind_pooler else nullcontext()

    def discard(self) -> None:
        """Drop this connection: after a timeout its socket may be dead without any error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._was_lost = True
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=2)

    async def _connect(self) -> asyncpg.Connection:
        if self._behind_pooler:
            return await self._database.connect(self._role, settings=self._settings)
        return await self._database.connect(
            self._role,
            settings=(*_HOT_PATH, *self._settings),
            statement_cache_size=_CACHED_STATEMENTS,
            durable=self._durable,
        )


@asynccontextmanager
async def _cancelled_soon() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_POOLER_CANCEL_AFTER_S):
            yield
    except TimeoutError as error:
        raise asyncpg.LockNotAvailableError("statement cancelled: it may have waited for a lock") from error


async def is_behind_pooler(database: Database) -> bool:
    """Return whether a pooler between this process and PostgreSQL passes statements to changing backends.

    A pooler answers the handshake with its own process id; the backend reports the real one.
    """
    return (await inspect_server(database, durable=False))[0]


async def inspect_server(database: Database, *, durable: bool) -> tuple[bool, list[str]]:
    """Return whether there is a pooler, and which settings of the server a worker should be warned about."""
    connection = await database.connect("probe")
    try:
        pid, commits, isolation = await connection.fetchrow(statement(__name__, "server_settings"))
        pooled = bool(connection.get_server_pid() != pid)
    finally:
        await connection.close()
    warnings = []
    if commits == "off":
        effect = "sends and outcomes that were confirmed in the last moments before a crash of the server are lost"
        if durable and not pooled:
            effect = (
                "sends, starts and outcomes set it to on for themselves; PostgresConfig(durable=False) leaves it off"
            )
        elif durable:
            effect += "; ALTER ROLE … SET synchronous_commit = on"
        else:
            effect += ", because of durable=False"
        warnings.append(f"synchronous_commit is off: {effect}")
    if pooled and isolation != "read committed":
        warnings.append(
            f"the default isolation of this role is {isolation!r}, and a pooler takes no settings: claims may fail;"
            " ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )
    return pooled, warnings
