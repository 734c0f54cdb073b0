"""A database for a test: on a PostgreSQL server of this process, removed afterwards."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database
from horsies.store.embedded import Place, acquire
from horsies.store.embedded.locks import FileLock
from horsies.store.embedded.temporary import fast_place, make_directory
from horsies.store.schema import create
from horsies.testing.seam import database_replaced

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from horsies.app import Horsies


_PREFIX: Final = "horsies-test-"
_STOPPING_S: Final = 30.0


@contextmanager
def embedded_database(app: Horsies | None = None) -> Iterator[str]:
    """The URL of a database with the schema, dropped afterwards. Inside the block `app`, if given, uses it.

    The first call of a process starts its PostgreSQL, half a second; each further database takes some 30 ms. It needs
    the extra: pip install "horsies-console[embedded]".
    """
    databases = _databases()
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


class _Server:
    """In a directory of its own; runs until `remove`, or until this process has ended, however it ends."""

    def __init__(self) -> None:
        self._directory = make_directory(fast_place(), _PREFIX)
        self._pid = os.getpid()
        self._held = acquire(Place(self._directory))
        self.url = self._held.url

    def remove(self) -> None:
        """Stop the server and remove its files; does nothing in a forked process, which inherits this call."""
        if os.getpid() != self._pid:
            return
        self._held.release()
        with FileLock(self._held.place.keeper_lock) as keeper:
            keeper.exclusive_within(_STOPPING_S)
        shutil.rmtree(self._directory, ignore_errors=True)


class _Databases:
    """Copies of one database with the schema."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._template = f"template_{os.getpid()}"
        _blocking(self._make_template())

    def make(self) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        _blocking(self._administer(f"CREATE DATABASE {name} TEMPLATE {self._template}"))
        return name

    def drop(self, name: str) -> None:
        _blocking(self._administer(f"DROP DATABASE {name} WITH (FORCE)"))

    def url_of(self, name: str) -> str:
        return urlsplit(self._server.url)._replace(path=f"/{name}").geturl()

    async def _make_template(self) -> None:
        await self._administer(f"CREATE DATABASE {self._template}")
        async with _database(self.url_of(self._template)).connected("testing") as connection:
            await create(connection)

    async def _administer(self, sql: str) -> None:
        async with _database(self._server.url).connected("testing") as connection:
            await connection.execute(sql)


_made: dict[int, _Databases] = {}
_making = threading.Lock()


def _databases() -> _Databases:
    """Those of this process: a forked process starts a server of its own, because its parent may end first."""
    with _making:
        if (known := _made.get(os.getpid())) is None:
            server = _Server()
            atexit.register(server.remove)
            known = _made[os.getpid()] = _Databases(server)
        return known


def _database(url: str) -> Database:
    return Database(DatabaseUrl.parse(url), "a database for tests", None)


def _blocking(work: Coroutine[None, None, None]) -> None:
    """In a thread: this one may be running an event loop."""
    with ThreadPoolExecutor(1, thread_name_prefix="horsies testing") as thread:
        thread.submit(asyncio.run, work).result()
