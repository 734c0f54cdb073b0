"""Connections to the database that was chosen, and sentences for every way in which that can fail."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.store.embedded import EmbeddedServer, Place, acquire, default_place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from horsies.config.contexts import DatabaseChoice

CONNECT_TIMEOUT_S = 10.0

_TRANSIENT = (
    OSError,  # TimeoutError among them
    asyncpg.InterfaceError,  # the connection was closed below us
    asyncpg.InternalClientError,  # so was an idle one, noticed only when it is used
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutting down, starting up, a backend ended by hand
    asyncpg.InsufficientResourcesError,  # disk full, too many connections, out of memory
    asyncpg.TransactionRollbackError,  # deadlock, serialization
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, in the middle of a failover
)


def is_transient(error: BaseException) -> bool:
    """Whether the same statement may succeed later without anybody changing it."""
    return error.transient if isinstance(error, DatabaseUnavailable) else isinstance(error, _TRANSIENT)


class DatabaseUnavailable(HorsiesError):  # noqa: N818 - a state of the world, not a mistake in code
    """No connection now. `transient` says whether waiting may help, as for a restart or a full pool."""

    default_code = ErrorCode.BROKER_INVALID_URL

    def __init__(self, message: str, *, help_text: str, transient: bool, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message, help_text=help_text, notes=notes)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Database:
    """One reachable database; `embedded` is set where the server is our own."""

    url: DatabaseUrl
    reason: str
    embedded: EmbeddedServer | None

    @property
    def label(self) -> str:
        """Short enough for a sentence or a header."""
        return self.url.label if self.embedded is None else f"the embedded PostgreSQL in {self.embedded.place.root}"

    async def connect(
        self, role: str, *, settings: Sequence[tuple[str, str]] = (), statement_cache_size: int = 0
    ) -> asyncpg.Connection:
        """A connection whose application_name tells its role; DatabaseUnavailable where there is none to be had.

        By default no statement is prepared: PgBouncer in transaction mode hands each one to another backend.
        """
        try:
            return await asyncpg.connect(
                self.url.secret_text,
                timeout=self.url.connect_timeout_s or CONNECT_TIMEOUT_S,
                statement_cache_size=statement_cache_size,
                server_settings={"application_name": f"horsies {role}", **dict(settings)},
            )
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> DatabaseUnavailable:
        url, reason = self.url, f"the URL is {self.url}, {self.reason}"

        def unavailable(message: str, help_text: str, *, transient: bool = False) -> DatabaseUnavailable:
            return DatabaseUnavailable(message, help_text=help_text, transient=transient, notes=(reason,))

        match error:
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return unavailable(
                    f"PostgreSQL at {url.where} refuses user {url.user!r}: {error}",
                    "correct the user or password in the URL, or set PGPASSWORD or ~/.pgpass and leave it out there",
                )
            case asyncpg.InvalidCatalogNameError():
                return unavailable(
                    f"there is no database {url.database!r} on the PostgreSQL at {url.where}",
                    f"create it (createdb {url.database}), or correct the name in the URL",
                )
            case asyncpg.InsufficientPrivilegeError():
                return unavailable(
                    f"user {url.user!r} may not connect to {url.label}: {error}",
                    f"as its owner: GRANT CONNECT ON DATABASE {url.database} TO {url.user}",
                )
            case asyncpg.TooManyConnectionsError():
                return unavailable(
                    f"PostgreSQL at {url.where} has no free connection: {error}",
                    "close idle clients, raise max_connections, or go through a pooler",
                    transient=True,
                )
            case asyncpg.CannotConnectNowError() | asyncpg.PostgresConnectionError():
                return unavailable(
                    f"PostgreSQL at {url.where} is starting or stopping: {error}", "try again shortly", transient=True
                )
            case TimeoutError():
                return unavailable(
                    f"PostgreSQL at {url.where} did not answer in {url.connect_timeout_s or CONNECT_TIMEOUT_S:g} s",
                    "check host, port and firewall, or allow longer with ?connect_timeout=30",
                    transient=True,
                )
            case socket.gaierror():
                return unavailable(
                    f"the host name in {url.where} cannot be resolved: {error.strerror}",
                    "correct the host in the URL, or check the name service",
                    transient=True,
                )
            case OSError():
                return unavailable(
                    f"nothing answers at {url.where}: {os.strerror(error.errno) if error.errno else error}",
                    "start PostgreSQL there, or correct host and port",
                    transient=True,
                )
            case _:
                return unavailable(
                    f"cannot connect to {url.label}: {error}", "correct the URL or the server's settings"
                )


@asynccontextmanager
async def open_database(choice: DatabaseChoice) -> AsyncIterator[Database]:
    """The chosen database; an embedded server is started for it and held as long as the block runs."""
    directory = None if choice.url is None else choice.url.embedded_directory
    if choice.url is not None and directory is None:
        yield Database(choice.url, choice.reason, None)
        return
    place = default_place() if directory is None else Place(directory)
    held = await asyncio.to_thread(acquire, place)
    try:
        yield Database(DatabaseUrl.parse(held.url), choice.reason, held)
    finally:
        held.release()
