"""Sequences of dependent statements, written once for every kind of connection that may run them."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")

_ASYNCPG = (asyncpg.Connection, PoolConnectionProxy)

Row: TypeAlias = Sequence[Any]
Steps: TypeAlias = Generator[tuple[str, tuple[Any, ...]], Sequence[Row], T]
"""Yields a statement with its parameters, receives its rows, and returns the result."""


class CallerConnectionError(Exception):
    """The caller's connection cannot be used, or the server refused a statement on it."""


async def drive(connection: asyncpg.Connection, steps: Steps[T]) -> T:
    """Run the steps on an asyncpg connection."""
    try:
        query, parameters = next(steps)
        while True:
            query, parameters = steps.send(await connection.fetch(query, *parameters))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_on_callers(connection: object, steps: Steps[T]) -> T:
    """Run the steps inside the caller's transaction, on the caller's event loop."""
    if isinstance(connection, _ASYNCPG):
        try:
            return await drive(connection, steps)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            raise CallerConnectionError(str(error)) from error
    psycopg = _psycopg_of(connection)
    if not isinstance(connection, psycopg.AsyncConnection):
        return drive_blocking_on_callers(connection, steps)
    try:
        query, parameters = next(steps)
        while True:
            async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
                await cursor.execute(*_for_psycopg(query, parameters))
                rows = await cursor.fetchall()
            query, parameters = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    except psycopg.Error as error:
        raise CallerConnectionError(str(error)) from error


def drive_blocking_on_callers(connection: object, steps: Steps[T]) -> T:
    """Run the steps inside the caller's transaction on a psycopg connection, in the caller's thread."""
    psycopg = _psycopg_of(connection)
    if not isinstance(connection, psycopg.Connection):
        raise _must_be_awaited(connection)
    try:
        query, parameters = next(steps)
        while True:
            with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
                cursor.execute(*_for_psycopg(query, parameters))
                rows = cursor.fetchall()
            query, parameters = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    except psycopg.Error as error:
        raise CallerConnectionError(str(error)) from error


def _psycopg_of(connection: object) -> Any:
    """The psycopg module of this connection. The caller has loaded it; the engine never does."""
    if isinstance(connection, _ASYNCPG):
        raise _must_be_awaited(connection)
    psycopg: ModuleType | None = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return psycopg
    raise CallerConnectionError(
        f"connection= takes a connection of asyncpg or psycopg 3, not {type(connection).__module__}."
        f"{type(connection).__qualname__}; from SQLAlchemy: session.connection().connection.driver_connection"
    )


def _must_be_awaited(connection: object) -> CallerConnectionError:
    return CallerConnectionError(
        f"a connection of {type(connection).__module__.partition('.')[0]} that is awaited fits the async form only: "
        "await send_async(…, connection=connection) on its event loop"
    )


def _for_psycopg(query: str, parameters: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    return _named(query), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@cache
def _named(query: str) -> str:
    """`$1` in psycopg's notation."""
    return re.sub(r"\$(\d+)", r"%(p\1)s", query.replace("%", "%%"))
