"""Statements inside the caller's transaction, on the caller's connection: a driver's, SQLAlchemy's, Django's.

The engine never imports these libraries: the caller has loaded the one that the connection is of.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from horsies.store.statements import tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from types import ModuleType

    from horsies.store.steps import Row

T = TypeVar("T")

Fetch: TypeAlias = "Callable[[str, tuple[Any, ...]], Awaitable[Sequence[Row]]]"

_ASYNCPG = (asyncpg.Connection, PoolConnectionProxy)
_DOLLARS = frozenset({"asyncpg"})
_NAMES = frozenset({"psycopg", "psycopg_async", "psycopg2"})
_ACCEPTED = (
    "connection= takes a connection of asyncpg, psycopg or psycopg2, a Session or Connection of SQLAlchemy (also its "
    "async ones) with one of these drivers, or Django's connection"
)


class CallerConnectionError(Exception):
    """The caller's connection cannot be used, or the server refused a statement on it."""


class CallersConnection:
    """The part of asyncpg's connection that sends and starts use. Rows are sequences, without names of columns."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def fetch(self, query: str, *parameters: Any) -> Sequence[Row]:
        try:
            return await self._fetch(query, parameters)
        except CallerConnectionError:
            raise
        except Exception as error:
            # SQLAlchemy's own text has the parameters in it, which are the task's arguments.
            raise CallerConnectionError(str(getattr(error, "orig", None) or error)) from error

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        rows = await self.fetch(query, *parameters)
        return rows[0][0] if rows else None

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)


async def on_callers(connection: object, work: Callable[[Any], Awaitable[T]]) -> T:
    """`work` with the caller's connection, on the event loop of the caller."""
    fetch = _awaited_fetch(connection) or _blocking_fetch(connection)
    if fetch is None:
        raise _foreign(connection)
    return await work(CallersConnection(fetch))


def on_callers_blocking(connection: object, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    """`work` with the caller's connection, in the thread of the caller. Nothing in it waits for an event loop."""
    fetch = _blocking_fetch(connection)
    if fetch is None:
        raise _foreign(connection) if _awaited_fetch(connection) is None else _must_be_awaited(connection)
    working = work(CallersConnection(fetch))
    try:
        working.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    working.close()
    raise RuntimeError("work on a blocking connection waited for an event loop")


def _awaited_fetch(connection: Any) -> Fetch | None:
    if isinstance(connection, _ASYNCPG):
        return lambda query, parameters: connection.fetch(query, *parameters)
    if _is_a(connection, "psycopg", "AsyncConnection"):

        async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
            psycopg = sys.modules["psycopg"]
            async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
                await cursor.execute(*_with_names(query, parameters))
                return await cursor.fetchall() if cursor.description is not None else ()

        return fetch
    if _is_a(connection, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session", "AsyncConnection"):

        async def fetch_by_sqlalchemy(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
            opened = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
            result = await opened.exec_driver_sql(*_for_dialect(opened.dialect, query, parameters))
            return result.fetchall() if result.returns_rows else ()

        return fetch_by_sqlalchemy
    return None


def _blocking_fetch(connection: Any) -> Fetch | None:
    if _is_a(connection, "psycopg", "Connection"):
        psycopg: Any = sys.modules["psycopg"]
        # Not the connection's own kind of cursor: this one sends the values beside the statement, not in it.
        return _with_cursor(lambda: psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row))
    if _is_a(connection, "psycopg2.extensions", "connection"):
        return _with_cursor(lambda: connection.cursor(cursor_factory=sys.modules["psycopg2.extensions"].cursor))
    # `django.db.connection` is a proxy of the thread's own, `connections["default"]` is that one itself.
    if _is_a(connection, "django.utils.connection", "ConnectionProxy") or _is_a(
        connection, "django.db.backends.base.base", "BaseDatabaseWrapper"
    ):
        return _with_cursor(connection.cursor)
    if _is_a(connection, "sqlalchemy.orm", "Session", "scoped_session"):
        return _by_sqlalchemy(connection.connection)
    if _is_a(connection, "sqlalchemy.engine", "Connection"):
        return _by_sqlalchemy(lambda: connection)
    return None


def _with_cursor(open_cursor: Callable[[], Any]) -> Fetch:
    async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
        with open_cursor() as cursor:
            cursor.execute(*_with_names(query, parameters))
            return cursor.fetchall() if cursor.description is not None else ()

    return fetch


def _by_sqlalchemy(connect: Callable[[], Any]) -> Fetch:
    async def fetch(query: str, parameters: tuple[Any, ...]) -> Sequence[Row]:
        connection = connect()
        result = connection.exec_driver_sql(*_for_dialect(connection.dialect, query, parameters))
        return result.fetchall() if result.returns_rows else ()

    return fetch


def _for_dialect(dialect: Any, query: str, parameters: tuple[Any, ...]) -> tuple[str, Any]:
    if dialect.driver in _DOLLARS:
        return query, parameters
    if dialect.driver in _NAMES:
        return _with_names(query, parameters)
    raise CallerConnectionError(f"{_ACCEPTED}; this is SQLAlchemy with {dialect.name}+{dialect.driver}")


def _with_names(query: str, parameters: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    return _named(query), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@cache
def _named(query: str) -> str:
    """`$1` in the notation of psycopg, psycopg2 and Django. They read a `%` as theirs anywhere, also in a quoted text.

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


def _must_be_awaited(connection: object) -> CallerConnectionError:
    return CallerConnectionError(
        f"a connection of {type(connection).__module__.partition('.')[0]} that is awaited fits the async form only: "
        "await send_async(…, connection=connection) on its event loop"
    )
