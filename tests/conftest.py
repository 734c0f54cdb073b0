"""Fixtures of all tests: one PostgreSQL server per run, and a database of its own for each test that asks for one.

The server is an embedded one per process, or the one that HORSIES_TEST_DATABASE_URL names: the URL of any database
there, with a superuser. A test that stops, freezes or reconfigures its server asks for `embedded_server` and
`embedded_database`, which are always embedded.
"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from _pytest.pathlib import import_path
from database_server import DatabaseServer, know_array_types, new_role
from dealing import FileByFile, places
from forked_commands import SharedServers
from hypothesis import settings

from horsies.store.embedded import EmbeddedPlace, EmbeddedServer, acquire
from horsies.store.embedded.binaries import find_programs
from horsies.store.embedded.keeper import make_cluster
from horsies.store.embedded.place import fast_place, make_directory
from horsies.store.embedded.trusted_paths import FileLock

settings.register_profile("any machine", deadline=None)  # no test may fail because others keep the machine busy
settings.load_profile("any machine")

SERVER_VARIABLE = "HORSIES_TEST_DATABASE_URL"
_BYTECODE = Path(".pytest_cache") / "bytecode"
# To make a database and to drop it, as most tests do, costs 1.7 ms of processor time less so than by default: no file
# is synced, and DROP DATABASE looks through fewer buffers. Nothing here outlives a crash of the system.
_SETTINGS = """
fsync = off
full_page_writes = off
shared_buffers = 24MB
"""


def pytest_configure(config: pytest.Config) -> None:
    """Without a bytecode cache each of 1,000 processes would compile all sources: a fifth of its time.

    The cache is kept beside pytest's own: compiling sources and tests takes each of the processes of a run 6 to 9
    s.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.rootpath / _BYTECODE)
    # A script starts what it runs in the background with ctrl+c ignored, and the programs under test inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A console allocates so much that the default threshold of 700 objects costs its tests a quarter of their time.
    gc.set_threshold(50_000, 20, 20)
    know_array_types()
    starts_others = "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("numprocesses", None)
    if starts_others and sys.platform == "linux":  # elsewhere the installed script is started
        config.add_cleanup(SharedServers(fast_place()).close)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the bytecode of modules that tests wrote into temporary directories; they are never imported again."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        here = Path(tempfile.gettempdir()).resolve()
        for left in (config.rootpath / _BYTECODE / here.relative_to("/")).glob("pytest-of-*"):
            shutil.rmtree(left, ignore_errors=True)


def pytest_collection(session: pytest.Session) -> None:
    """In a run of all tests each process first imports its share of the files, and finds the others compiled.

    Where no bytecode is kept yet, compiling all of them takes 7 s of processor time, and each process would do it.
    """
    here = Path(__file__).parent
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if processes and here in map(Path.resolve, map(Path, session.config.args)):
        own = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        for file in sorted(here.glob("*/test_*.py"))[own::processes]:
            import_path(file, root=session.config.rootpath, consider_namespace_packages=False)


def pytest_collection_finish() -> None:
    """Exempt the objects that collecting has made from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measuring tests first, then file by file."""
    place = places(dict.fromkeys(item.path for item in items))
    items.sort(key=lambda item: (not _is_alone(item), place[item.path]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileByFile:
    return FileByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, bool, bool]:
    """A test marked `alone` measures times and runs without others, which would distort them.

    It keeps the gate locked while it waits for running tests; otherwise new ones would always start before it.
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
    """The locks shared by all processes that run these tests; they are released when a process ends."""
    here = Path(__file__)
    return os.open(here.parent, os.O_RDONLY), os.open(here, os.O_RDONLY)


def _is_alone(item: pytest.Item) -> bool:
    """With `on_one_server` only if the processes of this run share a server; by default each has one of its own."""
    marker = item.get_closest_marker("alone")
    return marker is not None and (SERVER_VARIABLE in os.environ or not marker.kwargs.get("on_one_server"))


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory with a short path that the server's account may enter (pytest's own is private to its user)."""
    directory = Path(tempfile.mkdtemp(prefix="hc-"))
    directory.chmod(0o755)
    yield directory
    stop_and_remove(directory)


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[EmbeddedServer]:
    """An embedded server of this process, in memory if there is enough: on a disk CREATE DATABASE takes 120 ms, not 8.

    The files of runs that were killed are removed, and those of runs whose locks are held stay.
    """
    directory = make_directory(fast_place(), "hc-tests-")
    place = EmbeddedPlace(directory)
    place.prepare()
    make_cluster(find_programs(place), place)
    with (place.data / "postgresql.conf").open("a") as settings:
        settings.write(_SETTINGS)
    held = acquire(place)
    yield held
    held.release()
    stop_and_remove(directory)


@pytest.fixture(scope="session")
def own_databases(embedded_server: EmbeddedServer) -> Iterator[DatabaseServer]:
    # Copied as files, a database is ready in 8 ms; through the log in 17.
    made = DatabaseServer(embedded_server.url, copying="STRATEGY FILE_COPY")
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """The server on which tests have their databases."""
    if given := os.environ.get(SERVER_VARIABLE):
        made = DatabaseServer(given)
        yield made
        made.close()
    else:
        yield request.getfixturevalue("own_databases")


def stop_and_remove(directory: Path) -> None:
    """Wait until each keeper below has stopped its server: it holds its lock as long as the server runs."""
    for lock in directory.rglob("keeper.lock"):
        with FileLock(lock) as keeper:
            assert keeper.exclusive_within(30), f"the server in {lock.parent} does not stop"
    shutil.rmtree(directory)


@pytest.fixture
def empty_database(server: DatabaseServer) -> Iterator[str]:
    """The URL of an empty database."""
    with server.empty_database() as url:
        yield url


@pytest.fixture
def database(server: DatabaseServer) -> Iterator[str]:
    """The URL of a database with the current schema."""
    with server.database() as url:
        yield url


@pytest.fixture
def embedded_database(own_databases: DatabaseServer) -> Iterator[str]:
    """The same on the embedded server, for a test that stops, freezes or reconfigures its server."""
    with own_databases.database() as url:
        yield url


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with the current schema."""
    connected = await asyncpg.connect(database)
    yield connected
    await connected.close()


@pytest.fixture
async def role(connection: asyncpg.Connection) -> AsyncIterator[str]:
    """The name of a role without any rights; `url_with(database, role=…)` connects as it."""
    async with new_role(connection) as name:
        yield name
