"""Fixtures of many files of tests on SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from database_server import DatabaseServer
from lifecycle_steps import HOT_PATH
from view_steps import reader

from horsies import AppConfig, Horsies, Ok, PostgresConfig
from horsies.broker import PostgresBroker


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with the settings of those that read for people."""
    connected = await reader(database)
    yield connected
    await connected.close()


@pytest.fixture
async def other(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A second session, for concurrent statements."""
    connected = await asyncpg.connect(database)
    yield connected
    await connected.close()


@pytest.fixture
async def worker(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with the settings of a worker's dedicated connections."""
    connected = await asyncpg.connect(database, server_settings=HOT_PATH)
    yield connected
    await connected.close()


@pytest.fixture
async def rival(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A worker's session that changes the same rows first."""
    connected = await asyncpg.connect(database, server_settings=HOT_PATH)
    yield connected
    await connected.close()


@pytest.fixture(scope="module")
def full_database(request: pytest.FixtureRequest, server: DatabaseServer) -> Iterator[str]:
    """A database filled by the statements in FILL of the test's module."""
    with server.filled_database(request.module.FILL) as url:
        yield url


@pytest.fixture
async def full(full_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A reader of the module's full database."""
    connected = await reader(full_database)
    yield connected
    await connected.close()


@pytest.fixture
async def upstream_database(empty_database: str) -> str:
    """A database as upstream leaves it, with rows."""
    maker = await asyncpg.connect(empty_database)
    await maker.execute(Path(__file__).with_name("upstream_shape.sql").read_text("utf-8"))
    await maker.close()
    return empty_database


@pytest.fixture
def broker(database: str) -> Iterator[PostgresBroker]:
    """A broker without an application."""
    made = PostgresBroker(PostgresConfig(database_url=database))
    yield made
    assert made.close() == Ok(None)


@pytest.fixture
def app(database: str) -> Iterator[Horsies]:
    """An application without tasks."""
    made = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
    yield made
    made.get_broker().close()
