"""A database for a test, dropped afterwards: on a PostgreSQL server of this process, or on one of the user's."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import secrets
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import asyncpg

from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database, DatabaseUnavailable
from horsies.store.embedded import EmbeddedPlace, acquire
from horsies.store.embedded.place import fast_place, make_directory
from horsies.store.embedded.trusted_paths import FileLock
from horsies.store.schema import create

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from horsies.app import Horsies
    from horsies.broker import PostgresBroker


@contextmanager
def broker_replaced(app: Horsies, broker: PostgresBroker | None) -> Iterator[None]:
    """Inside this block `app` uses this broker; None: a new one made from its configuration."""
    before, app._broker = app._broker, broker  # noqa: SLF001 - no application needs this outside of tests
    try:
        yield
    finally:
        inside, app._broker = app._broker, before  # noqa: SLF001
        if inside is not None:
            inside.close()


@contextmanager
def database_replaced(app: Horsies, url: str) -> Iterator[None]:
    """Inside this block `app` uses the database at `url`."""
    config = app.config
    app.config = config.model_copy(update={"broker": config.broker.model_copy(update={"database_url": url})})
    try:
        with broker_replaced(app, None):
            yield
    finally:
        app.config = config


SERVER_VARIABLE: Final = "HORSIES_TEST_DATABASE_URL"
_PREFIX: Final = "horsies-test-"
_STOPPING_S: Final = 30.0
_RIGHTS: Final = "give the role the right to create databases: ALTER ROLE ... CREATEDB"


@contextmanager
def embedded_database(app: Horsies | None = None) -> Iterator[str]:
    """Yield the URL of a database with the schema, dropped afterwards. Inside the block `app`, if given, uses it.

    The first call of a process starts its PostgreSQL, half a second; each further database takes some 30 ms. It needs
    the extra `embedded`.
    """
    with _database_of(_databases(None), app) as url:
        yield url


@contextmanager
def fresh_database(app: Horsies | None = None) -> Iterator[str]:
    """Yield a database for the fixture horsies_db: embedded, or on the server at HORSIES_TEST_DATABASE_URL if set.

    The URL is that of any database of the server, with a role that may create databases. `drop_templates` must be
    called before the process ends.
    """
    with _database_of(_databases(os.environ.get(SERVER_VARIABLE) or None), app) as url:
        yield url


def drop_templates() -> None:
    """Drop what this process keeps on servers that are not its own."""
    for pid, given in list(_made):
        if given is not None and pid == os.getpid():
            _made.pop((pid, given)).drop_template()


@contextmanager
def _database_of(databases: _Databases, app: Horsies | None) -> Iterator[str]:
    name = databases.make()
    try:
        url = databases.url_of(name)
        if app is None:
            yield url
        else:
            with database_replaced(app, url):
                yield url
    finally:
        databases.drop(name)


class _Databases:
    """Copies of one database with the schema, on the server of this URL."""

    def __init__(self, url: str, copying: str = "") -> None:
        """`copying` is the fastest way to copy a database on this server."""
        self._url = url
        self._copying = copying
        self._prefix = f"horsies_pytest_{secrets.token_hex(4)}"  # other processes and machines may use the same server
        self._numbers = itertools.count(1)
        self._template = f"{self._prefix}_template"
        _blocking(self._make_template())

    def make(self) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        _blocking(self._administer(f"CREATE DATABASE {name} TEMPLATE {self._template} {self._copying}"))
        return name

    def drop(self, name: str) -> None:
        _blocking(self._administer(f"DROP DATABASE {name} WITH (FORCE)"))

    def drop_template(self) -> None:
        self.drop(self._template)

    def url_of(self, name: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{name}").geturl()

    async def _make_template(self) -> None:
        await self._administer(f"CREATE DATABASE {self._template} TEMPLATE template0")
        async with _database(self.url_of(self._template)).connected("testing") as connection:
            await create(connection)

    async def _administer(self, sql: str) -> None:
        async with _database(self._url).connected("testing") as connection:
            try:
                await connection.execute(sql)
            except asyncpg.InsufficientPrivilegeError as error:
                raise DatabaseUnavailable(str(error), help_text=_RIGHTS, transient=False) from error


_made: dict[tuple[int, str | None], _Databases] = {}
_making = threading.Lock()


def _databases(given: str | None) -> _Databases:
    """Return the databases of this process on the given server, or on one of its own.

    A forked process starts another server, because its parent may end first.
    """
    with _making:
        key = os.getpid(), given
        if (known := _made.get(key)) is None:
            known = _on_own_server() if given is None else _Databases(DatabaseUrl.parse(given).secret_text)
            _made[key] = known
        return known


def _on_own_server() -> _Databases:
    """Start a server in its own directory; it runs until this process ends in any way."""
    directory, pid = make_directory(fast_place(), _PREFIX), os.getpid()
    server = acquire(EmbeddedPlace(directory))

    def remove() -> None:
        if os.getpid() != pid:  # a forked process inherits this call
            return
        server.release()
        with FileLock(server.place.keeper_lock) as keeper:
            keeper.exclusive_within(_STOPPING_S)
        shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    # Copied as files, a database is ready in half the time.
    return _Databases(server.url, copying="STRATEGY FILE_COPY")


def _database(url: str) -> Database:
    return Database(DatabaseUrl.parse(url), "a database for tests", None)


def _blocking(work: Coroutine[None, None, None]) -> None:
    """Run in a thread: this one may be running an event loop."""
    with ThreadPoolExecutor(1, thread_name_prefix="horsies testing") as thread:
        thread.submit(asyncio.run, work).result()
