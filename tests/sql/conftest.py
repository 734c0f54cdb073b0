"""Fixtures of many files of tests on SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from database_server import DatabaseServer
from view_steps import reader

from horsies import AppConfig, Horsies, Ok, PostgresConfig
from horsies.broker import PostgresBroker


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with the settings of those that read for people."""
    connected = await reader(database)
    yield connected
    await connected.close()


@pytest.fixture(scope="module")
def full_database(request: pytest.FixtureRequest, server: DatabaseServer) -> Iterator[str]:
    """A database filled by the statements in FILL of the test's module."""
    with server.filled_database(request.module.FILL) as url:
        yield url


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
