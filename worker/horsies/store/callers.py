"""Statements inside the caller's transaction, on the caller's connection: a driver's, SQLAlchemy's, Django's.

The engine never imports these libraries: a caller with a connection has imported its library already.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from horsies.domain.masking import mask
from horsies.domain.result import Ok
from horsies.store.statements import statement, tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from types import ModuleType

    from horsies.domain.result import Result
    from horsies.store.enqueue import Fetches, Row

T = TypeVar("T")

_log = logging.getLogger("horsies.broker")

Fetch: TypeAlias = "Callable[[str, tuple[Any, ...]], Awaitable[Sequence[Row]]]"
Driver: TypeAlias = "Callable[[], Awaitable[Any]]"

_ASYNCPG = (asyncpg.Connection, PoolConnectionProxy)
_DOLLARS = frozenset({"asyncpg"})
_NAMES = frozenset({"psycopg", "psycopg_async", "psycopg2"})
_RETRY_INTERVAL_S = 30.0
"""Seconds between attempts to reach the application's database, so that not every send waits while it is down."""
_ACCEPTED = (
    "connection= takes a connection of asyncpg, psycopg or psycopg2, a Session or Connection of SQLAlchemy (also its "
    "async ones) with one of these drivers, or Django's connection"
)


class CallerConnectionError(Exception):
    """The caller's connection cannot be used, or the server refused a statement on it."""


@dataclass(frozen=True, slots=True)
class SessionDatabase:
    """The database that a session is in.

    The server's system identifier, made by initdb, is the same behind every name, socket and pooler, on a standby that
    is promoted, and after a restart; addresses and start times are not. Any role may read it, unless an administrator
    has revoked that: then the name and the number of the database decide alone.
    """

    name: str
    oid: int
    server: int | None

    def is_other_than(self, other: SessionDatabase) -> bool:
        are_known = self.server is not None and other.server is not None
        return self.oid != other.oid or self.name != other.name or (are_known and self.server != other.server)


async def session_database(connection: Fetches) -> SessionDatabase:
    ((name, oid, may_ask),) = await connection.fetch(statement(__name__, "database_of_session"))
    server = (await connection.fetch(statement(__name__, "server_of_session")))[0][0] if may_ask else None
    return SessionDatabase(name, oid, server)


class CallersConnection:
    """The methods of asyncpg's connection that sends and starts use. Rows are sequences without column names."""

    def __init__(self, fetch: Fetch, driver: Driver) -> None:
        self._fetch = fetch
        self._driver = driver

    async def fetch(self, query: str, *parameters: Any) -> Sequence[Row]:
        return await _explained(self._fetch, query, parameters)

    async def database(self) -> SessionDatabase:
        """Return the database of the connection, read once per driver connection: pools keep connections for long."""
        driver = await _explained(self._driver)
        known = None if driver is None else _databases.get(driver)  # None: it is back in its pool
        if known is None:
            known = _databases[driver] = await session_database(self)
        return known

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        rows = await self.fetch(query, *parameters)
        return rows[0][0] if rows else None

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)


class Failure(Protocol):
    """The reason why the application's database could not be queried."""

    @property
    def message(self) -> str: ...


Ask: TypeAlias = "Callable[[], Awaitable[Result[SessionDatabase, Failure]]]"


class OwnDatabase:
    """An application's database, compared with that of callers' connections: a task elsewhere would never run."""

    def __init__(self) -> None:
        self._known: SessionDatabase | None = None
        self._unreached_until = 0.0

    async def why_not(self, callers: CallersConnection, ask: Ask) -> str | None:
        """Return why the connection is not accepted; None if it is one to this database, or that is unknown now.

        A difference is confirmed with `ask`: an upgrade of the server, or a switch to a different one, changes what was
        read before.
        """
        theirs = await callers.database()
        if self._known is not None and not self._known.is_other_than(theirs):
            return None
        known = await self._confirmed(ask)
        if known is None or not known.is_other_than(theirs):
            return None
        where = f"another server's {theirs.name!r}" if theirs.name == known.name else repr(theirs.name)
        return (
            f"connection= is to the database {where}, but the application's is {known.name!r}: no worker would find "
            "the task; pass a connection to the application's database, for example of an engine for app.database_url()"
        )

    async def _confirmed(self, ask: Ask) -> SessionDatabase | None:
        if monotonic() < self._unreached_until:
            return None
        answer = await ask()
        if isinstance(answer, Ok):
            self._known = answer.ok_value
            return self._known
        self._unreached_until = monotonic() + _RETRY_INTERVAL_S
        words = "cannot compare the database of connection= with that of the application: %s"
        _log.warning(words, mask(answer.err_value.message))
        return None


_databases: WeakKeyDictionary[Any, SessionDatabase] = WeakKeyDictionary()


async def _explained(work: Callable[..., Awaitable[T]], *given: Any) -> T:
    try:
        return await work(*given)
    except CallerConnectionError:
        raise
    except Exception as error:
        # SQLAlchemy's own text has the parameters in it, which are the task's arguments.
        raise CallerConnectionError(str(getattr(error, "orig", None) or error)) from error


async def on_callers(connection: object, work: Callable[[Any], Awaitable[T]]) -> T:
    """Do `work` with the caller's connection, on the event loop of the caller."""
    callers = _awaited(connection) or _blocking(connection)
    if callers is None:
        raise _foreign(connection)
    return await work(callers)


def on_callers_blocking(connection: object, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    """Do `work` with the caller's connection, in the caller's thread. Nothing in it waits for an event loop."""
    callers = _blocking(connection)
    if callers is None:
        if _awaited(connection) is None:
            raise _foreign(connection)
        raise CallerConnectionError(
            f"an async connection of {type(connection).__module__.partition('.')[0]} works only with the async form: "
            "await send_async(…, connection=connection) on its event loop"
        )
    working = work(callers)
    try:
        working.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    working.close()
    raise RuntimeError("work on a blocking connection waited for an event loop")


def _awaited(connection: Any) -> CallersConnection | None:
    if isinstance(connection, _ASYNCPG):
        return CallersConnection(
            lambda query, parameters: connection.fetch(query, *parameters),
            # A pool wraps the same connection in a new object at each acquire.
            _given(getattr(connection, "_con", connection)),
        )
    if _is_a(connection, "psycopg", "AsyncConnection"):

        async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
            psycopg = sys.modules["psycopg"]
            prepare = _prepares(connection, psycopg.AsyncClientCursor)
            async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
                await cursor.execute(*_with_names(query, parameters), prepare=prepare)
                return await cursor.fetchall() if cursor.description is not None else ()

        return CallersConnection(fetch, _given(connection))
    if _is_a(connection, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session", "AsyncConnection"):

        async def opened() -> Any:
            return connection if hasattr(connection, "exec_driver_sql") else await connection.connection()

        async def driver() -> Any:
            own = await opened()
            _takes_dollars(own.dialect)
            return (await own.get_raw_connection()).driver_connection

        async def fetch_by_sqlalchemy(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
            own = await opened()
            result = await own.exec_driver_sql(*_for_dialect(own.dialect, query, parameters))
            return result.fetchall() if result.returns_rows else ()

        return CallersConnection(fetch_by_sqlalchemy, driver)
    return None


def _blocking(connection: Any) -> CallersConnection | None:
    if _is_a(connection, "psycopg", "Connection"):
        psycopg: Any = sys.modules["psycopg"]
        # Not the default cursor class: this one sends the values separately from the statement, not inside its text.
        return _with_cursor(
            lambda: psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row),
            _given(connection),
            prepare=_prepares(connection, psycopg.ClientCursor),
        )
    if _is_a(connection, "psycopg2.extensions", "connection"):
        psycopg2: Any = sys.modules["psycopg2.extensions"]
        return _with_cursor(lambda: connection.cursor(cursor_factory=psycopg2.cursor), _given(connection))
    # `django.db.connection` is a proxy for the thread's connection, `connections["default"]` is the connection itself.
    if _is_a(connection, "django.utils.connection", "ConnectionProxy") or _is_a(
        connection, "django.db.backends.base.base", "BaseDatabaseWrapper"
    ):

        async def driver() -> Any:
            connection.ensure_connection()
            return connection.connection

        return _with_cursor(connection.cursor, driver)
    if _is_a(connection, "sqlalchemy.orm", "Session", "scoped_session"):
        return _by_sqlalchemy(connection.connection)
    if _is_a(connection, "sqlalchemy.engine", "Connection"):
        return _by_sqlalchemy(lambda: connection)
    return None


def _given(driver: Any) -> Driver:
    async def give() -> Any:
        return driver

    return give


def _prepares(connection: Any, client_cursor: type) -> bool | None:
    """Return whether psycopg may prepare the statement: never if the connection binds values on the client, which
    poolers without prepared statements require; otherwise psycopg decides.
    """
    return False if issubclass(connection.cursor_factory, client_cursor) else None


def _with_cursor(open_cursor: Callable[[], Any], driver: Driver, **options: Any) -> CallersConnection:
    async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
        with open_cursor() as cursor:
            cursor.execute(*_with_names(query, parameters), **options)
            return cursor.fetchall() if cursor.description is not None else ()

    return CallersConnection(fetch, driver)


def _by_sqlalchemy(connect: Callable[[], Any]) -> CallersConnection:
    async def driver() -> Any:
        connection = connect()
        _takes_dollars(connection.dialect)
        return connection.connection.driver_connection

    async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
        connection = connect()
        result = connection.exec_driver_sql(*_for_dialect(connection.dialect, query, parameters))
        return result.fetchall() if result.returns_rows else ()

    return CallersConnection(fetch, driver)


def _for_dialect(dialect: Any, query: str, parameters: tuple[Any, ...]) -> tuple[str, Any]:
    return (query, parameters) if _takes_dollars(dialect) else _with_names(query, parameters)


def _takes_dollars(dialect: Any) -> bool:
    """Return whether SQLAlchemy's driver knows `$1`; raise an error for one that is not accepted."""
    if dialect.driver in _DOLLARS | _NAMES:
        return dialect.driver in _DOLLARS
    raise CallerConnectionError(f"{_ACCEPTED}; this is SQLAlchemy with {dialect.name}+{dialect.driver}")


def _with_names(query: str, parameters: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    return _named(query), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@cache
def _named(query: str) -> str:
    """Rewrite `$1` for psycopg, psycopg2 and Django, which treat every `%` as a placeholder, also in a quoted text.

    Only what PostgreSQL takes as a parameter becomes one: a value in a comment would end it with a newline, and run.
    """
    return "".join(
        f"%(p{text[1:]})s" if kind == "parameter" else text.replace("%", "%%") for kind, text in tokens(query)
    )


def _is_a(connection: object, module_name: str, *names: str) -> bool:
    module: ModuleType | None = sys.modules.get(module_name)
    return module is not None and isinstance(connection, tuple(getattr(module, name) for name in names))


def _foreign(connection: object) -> CallerConnectionError:
    kind = type(connection)
    return CallerConnectionError(f"{_ACCEPTED}; this is {kind.__module__}.{kind.__qualname__}")
