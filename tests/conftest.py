"""One embedded PostgreSQL for the whole run, one database for each test that asks."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import psycopg
import pytest

from horsies.store.embedded import EmbeddedServer, Place, acquire
from horsies.store.embedded.locks import FileLock
from horsies.store.schema import create

_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Where bytecode is not to be written, each of 1 000 processes would compile all sources: a fifth of its time."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="hc-bytecode-")


def pytest_unconfigure() -> None:
    made = os.environ.get("PYTHONPYCACHEPREFIX", "")
    if "hc-bytecode-" in made and "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(made)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what is measured, then what waits much: at the end nobody waits for another."""
    items.sort(key=lambda item: (not _is_alone(item), "process" not in item.path.parts))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, bool, bool]:
    """A test of seconds and milliseconds has the machine to itself: beside three others it would measure them.

    Who wants to be alone keeps the gate until such tests are through: others would come and go, and it never be.
    """
    gate, machine = _locks()
    mode = fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
    fcntl.flock(gate, mode)
    fcntl.flock(machine, mode)
    if not _is_alone(item):
        fcntl.flock(gate, fcntl.LOCK_UN)
    try:
        return (yield)
    finally:
        fcntl.flock(machine, fcntl.LOCK_UN)
        if nextitem is None or not _is_alone(nextitem):
            fcntl.flock(gate, fcntl.LOCK_UN)


@cache
def _locks() -> tuple[int, int]:
    """The same for all processes that run these tests; they go with the process that holds them."""
    here = Path(__file__)
    return os.open(here.parent, os.O_RDONLY), os.open(here, os.O_RDONLY)


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory with a short path that the server's account may enter (pytest's own is private to its user)."""
    directory = Path(tempfile.mkdtemp(prefix="hc-"))
    directory.chmod(0o755)
    yield directory
    stop_and_remove(directory)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    directory = Path(tempfile.mkdtemp(prefix="hc-tests-", dir=_fast_place()))
    directory.chmod(0o755)
    held = acquire(Place(directory))
    yield held
    if _administrators.cache_info().currsize:
        _administrators(held.url).close()
    held.release()
    stop_and_remove(directory)


def _fast_place() -> str | None:
    """Memory where there is enough of it: CREATE DATABASE takes 8 ms there and 120 to 280 ms on this disk."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2_000_000_000 else None


def stop_and_remove(directory: Path) -> None:
    """Wait until each keeper below has stopped its server: it holds its lock as long as the server runs."""
    for lock in directory.rglob("keeper.lock"):
        with FileLock(lock) as keeper:
            assert keeper.exclusive_within(30), f"the server in {lock.parent} does not stop"
    shutil.rmtree(directory)


@pytest.fixture
async def empty_database(server: EmbeddedServer) -> AsyncIterator[str]:
    """The URL of a database with nothing in it."""
    async for url in _fresh_database(server, "template0"):
        yield url


@pytest.fixture
async def database(server: EmbeddedServer, template: str) -> AsyncIterator[str]:
    """The URL of a database with our schema."""
    async for url in _fresh_database(server, template):
        yield url


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with our schema."""
    connected = await asyncpg.connect(database)
    yield connected
    await connected.close()


@pytest.fixture(scope="session")
def template(server: EmbeddedServer) -> str:
    """A database with our schema, copied for each test that wants one."""

    async def make() -> str:
        name = f"template_{os.getpid()}"
        _administer(server, f"CREATE DATABASE {name}")
        connected = await asyncpg.connect(url_of(server, name))
        await create(connected)
        await connected.close()
        return name

    return asyncio.run(make())


def url_of(server: EmbeddedServer, database: str) -> str:
    return f"postgresql://horsies@/{database}?host={quote(str(server.place.sockets), safe='/')}"


async def _fresh_database(server: EmbeddedServer, template: str) -> AsyncIterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    # Copied as files a database is there in 8 ms, through the log in 17.
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield url_of(server, name)
    _administer(server, f"DROP DATABASE {name} WITH (FORCE)")


def _administer(server: EmbeddedServer, statement: str) -> None:
    _administrators(server.url).execute(statement.encode())


@cache
def _administrators(url: str) -> psycopg.Connection[Any]:
    """Kept for all tests: to connect takes as long as what is asked for. It goes with the server."""
    return psycopg.connect(url, autocommit=True)
