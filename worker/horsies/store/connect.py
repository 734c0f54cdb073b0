"""Connections to the chosen database, and messages for all ways in which connecting can fail."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import ssl
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.store.embedded import EmbeddedPlace, EmbeddedServer, acquire, default_place
from horsies.store.hosts import (
    SERVER_KEEPALIVES,
    Address,
    NoHostError,
    Reached,
    UnfitHostError,
    connect_to_host,
    timeout_of,
)
from horsies.store.statements import statement
from horsies.store.times import ArrayConnection, read_all_times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from horsies.config.contexts import DatabaseChoice

Connection: TypeAlias = asyncpg.Connection
"""For modules above the store that pass a connection on."""

# Settings of every session. A worker that is stopped or cut off in the middle of a transaction would otherwise keep its
# locks until it returns, and with them block the workflows of all others; and a role's default of REPEATABLE READ would
# make capped claims fail.
_EVERY_SESSION = (
    ("default_transaction_isolation", "read committed"),
    ("idle_in_transaction_session_timeout", "5s"),
    *SERVER_KEEPALIVES,
)

_SETTINGS_PER_TRANSACTION: WeakKeyDictionary[asyncpg.Connection, Sequence[tuple[str, str]]] = WeakKeyDictionary()

_FAILURES = (UnfitHostError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

_TRANSIENT = (
    OSError,  # includes TimeoutError
    asyncpg.InterfaceError,  # the connection was closed by the network
    asyncpg.InternalClientError,  # an idle connection was closed, which is noticed only at its next use
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutting down, starting up, a backend terminated by an administrator
    asyncpg.InsufficientResourcesError,  # disk full, too many connections, out of memory
    asyncpg.TransactionRollbackError,  # deadlock, serialization
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, in the middle of a failover
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was stopped in the middle of a transaction
    UnfitHostError,
)


def is_transient(error: BaseException) -> bool:
    """Return whether the same statement may succeed later without any intervention."""
    return error.transient if isinstance(error, DatabaseUnavailable) else isinstance(error, _TRANSIENT)


def was_cancelled(error: BaseException) -> bool:
    """Return whether the server cancelled the statement: by its statement_timeout or on request of a session."""
    return isinstance(error, asyncpg.QueryCanceledError)


class DatabaseUnavailable(HorsiesError):  # noqa: N818 - a state of the database, not a mistake in code
    """No connection now. `transient` says whether waiting may help, as for a restart or a full pool."""

    default_code = ErrorCode.BROKER_INVALID_URL

    def __init__(self, message: str, *, help_text: str, transient: bool, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message, help_text=help_text, notes=notes)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Database:
    """One reachable database; `embedded` is set if the server is the embedded one."""

    url: DatabaseUrl
    reason: str
    embedded: EmbeddedServer | None
    _reached: Reached = field(default_factory=Reached, repr=False, compare=False)

    @property
    def probe_interval_s(self) -> float:
        """Seconds between checks that a silent connection works."""
        return 3.0 if self.has_several_hosts else 10.0

    @property
    def has_several_hosts(self) -> bool:
        """True if one host may take over from another, which then may leave its clients without an answer."""
        return len(self.url.addresses) > 1

    @property
    def label(self) -> str:
        """Short name of the database for sentences and headers."""
        return self.url.label if self.embedded is None else f"the embedded PostgreSQL in {self.embedded.place.root}"

    async def connect(
        self,
        role: str,
        *,
        settings: Sequence[tuple[str, str]] = (),
        statement_cache_size: int = 0,
        durable: bool = False,
    ) -> asyncpg.Connection:
        """A connection whose application_name contains its role; DatabaseUnavailable if none can be opened.

        By default no statement is prepared: PgBouncer in transaction mode passes each one to another backend. Of
        several hosts the first one is used that answers and fits target_session_attrs; connections to a host that it
        has replaced as the primary are cut. `durable`: commits reach the disk even if the server's synchronous_commit
        is off; any other value is the administrator's choice and is kept.
        """
        wanted = {**dict(_EVERY_SESSION), **dict(settings)}
        try:
            if not self._reached.refuses_settings:
                try:
                    connection = await self._connect(role, wanted, statement_cache_size)
                    if durable:
                        await _make_durable(connection)
                    return connection
                except asyncpg.ProtocolViolationError as error:  # PgBouncer: "unsupported startup parameter"
                    if "startup parameter" not in str(error):
                        raise
            connection = await self._connect(role, {}, statement_cache_size)
        except (*_FAILURES, NoHostError, ValueError, KeyError) as error:  # KeyError: a uid without an account
            raise self._explain(error) from error
        self._reached.refuses_settings = True
        _SETTINGS_PER_TRANSACTION[connection] = tuple(wanted.items())
        return connection

    async def _connect(self, role: str, settings: Mapping[str, str], cached: int) -> asyncpg.Connection:
        async def open_host(address: Address | None) -> asyncpg.Connection:
            host, port = (None, None) if address is None else ([address[0].strip("[]")], [address[1]])
            connection = await asyncpg.connect(
                self.url.secret_text,
                connection_class=ArrayConnection,
                host=host,
                port=port,
                timeout=timeout_of(self.url),
                statement_cache_size=cached,
                server_settings={"application_name": f"horsies {role}", **settings},
                # connect_to_host checks that itself: asyncpg takes a session that is read only for a read-only server.
                target_session_attrs="any" if self.url.addresses else None,
            )
            await read_all_times(connection)
            return connection

        reads_only = settings.get("default_transaction_read_only") == "on"
        try:
            return await connect_to_host(self.url, self._reached, open_host, reads_only=reads_only)
        except NoHostError as error:
            for _, answer in error.answers:
                if isinstance(answer, asyncpg.ProtocolViolationError):
                    raise answer from error
            raise

    @asynccontextmanager
    async def connected(
        self, role: str, *, settings: Sequence[tuple[str, str]] = ()
    ) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection for one piece of work; an error says if the server ended it midway."""
        connection = await self.connect(role, settings=settings)
        try:
            yield connection
        except _FAILURES as error:
            if not (connection.is_closed() or is_transient(error)):
                raise
            raise self._ended(error, lost=connection.is_closed()) from error
        finally:
            await connection.close()

    def _ended(self, error: Exception, *, lost: bool) -> DatabaseUnavailable:
        first: BaseException = error  # asyncpg's error about the failed rollback hides the error before it
        while isinstance(first, asyncpg.InterfaceError) and first.__context__ is not None:
            first = first.__context__
        if isinstance(first, asyncpg.QueryCanceledError):
            help_text = "allow it longer with ?statement_timeout=0 in the URL, or ask who cancelled it"
        else:
            help_text = "run the command again: what was not finished was rolled back"
        happened = "was lost" if lost else "could not finish its work"
        return DatabaseUnavailable(
            f"the connection to {self.label} {happened}: {first}",
            help_text=help_text,
            transient=True,
            notes=(f"the URL is {self.url}, {self.reason}",),
        )

    def _explain(self, error: Exception) -> DatabaseUnavailable:
        url = self.url
        notes = [f"the URL is {url}, {self.reason}"]
        may_help = False
        if isinstance(error, NoHostError):
            notes += [f"{host}: {_answer(url, answer)}" for host, answer in error.answers]
            may_help = any(is_transient(answer) for _, answer in error.answers)
            error = error.worst
        user = url.user or os.environ.get("PGUSER") or _account()
        if user is None:
            message = "no user: the URL names none, and this process has no account"
            help_text, transient = "name one in the URL: postgresql://USER@host/database", False
        elif isinstance(error, OSError):
            message, help_text, transient = _not_reached(url, error)
        else:
            message, help_text, transient = _refused_by_server(url, error, user)
        if user is not None and url.user is None:
            notes.append(f"the URL names no user, so it is {user!r}, from PGUSER or the account of this process")
        return DatabaseUnavailable(message, help_text=help_text, transient=transient or may_help, notes=tuple(notes))


async def _make_durable(connection: asyncpg.Connection) -> None:
    try:
        await connection.fetch(statement(__name__, "durable_here"))
    except BaseException:  # a closing broker cancels this; its caller has no connection to close yet
        connection.terminate()
        raise


def _answer(url: DatabaseUrl, error: Exception) -> str:
    """Return the answer of one of several hosts as text."""
    if isinstance(error, TimeoutError):
        return f"no answer in {timeout_of(url):g} s"
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _refused_by_server(url: DatabaseUrl, error: Exception, user: str) -> tuple[str, str, bool]:
    database = url.database or os.environ.get("PGDATABASE") or user
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            message = f"PostgreSQL at {url.where} refuses user {user!r}: {error}"
            help_text = "correct the user or password in the URL, or set PGPASSWORD or ~/.pgpass instead"
        case asyncpg.InvalidCatalogNameError():
            message = f"there is no database {database!r} on the PostgreSQL at {url.where}"
            help_text = f"create it (createdb {database}), or correct the name in the URL"
        case asyncpg.InsufficientPrivilegeError():
            message = f"user {user!r} may not connect to {url.label}: {error}"
            help_text = f"as its owner: GRANT CONNECT ON DATABASE {database} TO {user}"
        case asyncpg.TooManyConnectionsError():
            message = f"PostgreSQL at {url.where} has no free connection: {error}"
            help_text = "close idle clients, raise max_connections, or go through a pooler"
        case asyncpg.CannotConnectNowError() | asyncpg.PostgresConnectionError():
            message, help_text = f"PostgreSQL at {url.where} is starting or stopping: {error}", "try again shortly"
        case UnfitHostError():
            message = f"none of {url.where} is a {error.wanted} server now"
            help_text = "wait for the failover to end, or correct the hosts or target_session_attrs in the URL"
        case _:
            message, help_text = f"cannot connect to {url.label}: {error}", "correct the URL or the server's settings"
    return message, help_text, is_transient(error)


def _not_reached(url: DatabaseUrl, error: OSError) -> tuple[str, str, bool]:
    match error:
        case TimeoutError():
            message = f"PostgreSQL at {url.where} did not answer in {timeout_of(url):g} s"
            help_text = "check host, port and firewall, or allow longer with ?connect_timeout=30"
        case socket.gaierror():
            message = f"the host name in {url.where} cannot be resolved: {error.strerror}"
            help_text = "correct the host in the URL, or check the name service"
        case ssl.SSLError():
            message = f"TLS with PostgreSQL at {url.where} failed: {error}"
            help_text = (
                "name the server's authority with ?sslrootcert=/path/ca.pem, or correct sslmode or the host name"
            )
            return message, help_text, not isinstance(error, ssl.SSLCertVerificationError)
        case ConnectionError() if "rejected SSL" in str(error):
            message = f"PostgreSQL at {url.where} does not speak TLS, and sslmode in the URL demands it"
            return message, "turn on ssl in the server, or allow connections without TLS with ?sslmode=prefer", False
        case _:
            message = f"cannot connect to {url.where}: {os.strerror(error.errno) if error.errno else error}"
            help_text = "start PostgreSQL there, or correct host and port"
    return message, help_text, True


def _account() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return None


@asynccontextmanager
async def with_settings(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """A block in which the settings apply that the connection was opened with.

    Only a pooler needs this: it accepts no settings at the start, and a SET would apply to the next user of the
    backend.
    """
    if connection in _SETTINGS_PER_TRANSACTION:
        async with transaction(connection):
            yield
    else:
        yield


@asynccontextmanager
async def transaction(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """Open a transaction with the settings of the connection, READ COMMITTED whatever the default of the role."""
    async with connection.transaction(isolation="read_committed"):
        settings = _SETTINGS_PER_TRANSACTION.get(connection)
        if settings is not None:
            names, values = [name for name, _ in settings], [value for _, value in settings]
            await connection.fetch(statement(__name__, "settings_here"), names, values)
        yield


@asynccontextmanager
async def open_database(choice: DatabaseChoice) -> AsyncIterator[Database]:
    """Open the chosen database; an embedded server is started for it and runs until the end of the block."""
    directory = None if choice.url is None else choice.url.embedded_directory
    if choice.url is not None and directory is None:
        yield Database(choice.url, choice.reason, None)
        return
    place = default_place() if directory is None else EmbeddedPlace(directory)
    server = await _acquire(place)
    try:
        yield Database(DatabaseUrl.parse(server.url), choice.reason, server)
    finally:
        server.release()


async def _acquire(place: EmbeddedPlace) -> EmbeddedServer:
    """Acquire in a thread. If cancelled meanwhile, the thread continues, and releases the server once it has it."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="horsies-embedded")
    acquiring = executor.submit(acquire, place)
    executor.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(acquiring)
    except asyncio.CancelledError:
        acquiring.add_done_callback(_release_acquired)  # in that thread: the event loop may be closed by then
        raise


def _release_acquired(acquiring: Future[EmbeddedServer]) -> None:
    if not acquiring.cancelled() and acquiring.exception() is None:
        acquiring.result().release()
