"""Read-only sessions, on any version of the tables. A read that waits for a lock ends with the name of its holder."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from horsies.findings.blockers import BlockedError, blockers
from horsies.store.connect import DatabaseUnavailable, open_database, with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from horsies.config.contexts import DatabaseChoice
    from horsies.findings.blockers import Blocker
    from horsies.store.connect import Database

T = TypeVar("T")

Connection: TypeAlias = Any
"""The driver's type, which only the store may import."""

READ_ONLY_SETTINGS: Final = (*READER_SETTINGS, ("default_transaction_read_only", "on"))
_UNREADABLE: Final = frozenset({SchemaKind.EMPTY, SchemaKind.FOREIGN})
_ANSWER_WITHIN_S: Final = 3.0
_ASKS_EVERY_S: Final = 1.5
"""So long a statement may take before the server is asked, on another connection, whether it waits for a lock."""


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A connection, and the description of its database."""

    connection: Connection
    label: str


def read(choice: DatabaseChoice, role: str, work: Callable[[ReadSession], Awaitable[T]]) -> T:
    """Older tables and those of upstream are read as well; without tables, SchemaError says how to create them."""

    async def checked(session: ReadSession) -> T:
        state = await inspect_schema(session.connection)
        if state.kind in _UNREADABLE:
            raise state.error
        async with with_settings(session.connection):
            return await work(session)

    return asyncio.run(_read(choice, role, checked))


def read_server(choice: DatabaseChoice, role: str, work: Callable[[ReadSession], Awaitable[T]]) -> T:
    """Ask the server only: whether there are tables of ours, and whether they can be read, does not matter."""

    async def plain(session: ReadSession) -> T:
        async with with_settings(session.connection):
            return await work(session)

    return asyncio.run(_read(choice, role, plain))


async def _read(choice: DatabaseChoice, role: str, work: Callable[[ReadSession], Awaitable[T]]) -> T:
    async with open_database(choice) as database, database.connected(role, settings=READ_ONLY_SETTINGS) as connection:

        async def run() -> T:
            return await work(ReadSession(connection, database.label))

        return await unless_blocked(database, run())


async def unless_blocked(database: Database, work: Coroutine[Any, Any, T]) -> T:
    """Run the work; BlockedError as soon as the server says that sessions of ours wait for another one's lock."""
    working = asyncio.ensure_future(work)
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=_ASKS_EVERY_S)
            if not working.done():
                await _ask(database)
        return working.result()
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError, *CONNECTION_ERRORS):
            await working


async def _ask(database: Database) -> None:
    """Ask who blocks; without a second connection the cause stays unknown, and the work continues."""
    found: tuple[Blocker, ...] = ()
    with suppress(DatabaseUnavailable, *CONNECTION_ERRORS):
        async with (
            asyncio.timeout(_ANSWER_WITHIN_S),
            database.connected("blockers", settings=READ_ONLY_SETTINGS) as connection,
            with_settings(connection),
        ):
            found = await blockers(connection)
    if found:
        raise BlockedError(found)
