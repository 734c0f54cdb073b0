"""Read-only sessions, on any version of the tables."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from horsies.store.connect import open_database, with_settings
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.config.contexts import DatabaseChoice

T = TypeVar("T")

Connection: TypeAlias = Any
"""The driver's type, which only the store may import."""

READ_ONLY_SETTINGS: Final = (*READER_SETTINGS, ("default_transaction_read_only", "on"))
_UNREADABLE: Final = frozenset({SchemaKind.EMPTY, SchemaKind.FOREIGN})


@dataclass(frozen=True, slots=True)
class Session:
    """A connection, and the description of its database."""

    connection: Connection
    label: str


def read(choice: DatabaseChoice, role: str, work: Callable[[Session], Awaitable[T]]) -> T:
    """Older tables and those of upstream are read as well; without tables, SchemaError says how to create them."""
    return asyncio.run(_read(choice, role, work))


async def _read(choice: DatabaseChoice, role: str, work: Callable[[Session], Awaitable[T]]) -> T:
    async with open_database(choice) as database, database.connected(role, settings=READ_ONLY_SETTINGS) as connection:
        state = await inspect_schema(connection)
        if state.kind in _UNREADABLE:
            raise state.error
        async with with_settings(connection):
            return await work(Session(connection, database.label))
