"""A caller's connection to another database than the application's: a task there would wait for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from database_server import DatabaseServer, url_with
from test_send_transactions import (
    add,
    asyncpg_transaction,
    awaited,
    blocking,
    chain,
    grow,
    psycopg2_transaction,
)

from horsies import AppConfig, Horsies, PostgresConfig
from horsies.store.callers import SessionDatabase

HERE = SessionDatabase("app", 16_384, 7)


def application(url: str) -> Horsies:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=url)))
    app.task("add", add)
    app.task("grow", grow)
    return app


@pytest.fixture
def app(database: str) -> Iterator[Horsies]:
    """An application of the test's database."""
    made = application(database)
    yield made
    made.get_broker().close()


@pytest.fixture
def elsewhere(database: str) -> str:
    """Another database of the same server."""
    return urlsplit(database)._replace(path="/postgres").geturl()


@blocking
async def test_a_blocking_connection_to_another_database_is_refused(
    transaction: Any, app: Horsies, database: str, elsewhere: str
) -> None:
    def work() -> None:
        with transaction(elsewhere) as (mine, _):
            task = app.tasks["add"]
            results.extend([task.with_options(connection=mine).send(1), chain(app).start(connection=mine)])
            results.extend(app.send_many([task.to_send(1)], connection=mine))

    results: list[Any] = []
    with pytest.raises(Exception, match=r"not committed, because .*connection= is to the database 'postgres'"):
        await asyncio.to_thread(work)
    assert len(results) == 3
    for result in results:
        assert "connection= is to the database 'postgres', but the application's is " in result.unwrap_err().message
        assert not result.unwrap_err().retryable

    def work_here() -> None:
        with transaction(database) as (mine, _):
            app.tasks["add"].with_options(connection=mine).send(1).unwrap()

    await asyncio.to_thread(work_here)


@awaited
async def test_an_awaited_connection_to_another_database_is_refused(
    transaction: Any, app: Horsies, elsewhere: str
) -> None:
    async def work() -> None:
        async with transaction(elsewhere) as (mine, _):
            results.append(await app.tasks["add"].with_options(connection=mine).send_async(1))

    results: list[Any] = []
    with pytest.raises(Exception, match=r"not committed, because .*connection= is to the database 'postgres'"):
        await work()
    assert "connection= is to the database 'postgres'" in results[0].unwrap_err().message


async def test_a_database_with_tables_of_its_own_gets_nothing(
    app: Horsies, server: DatabaseServer, connection: asyncpg.Connection
) -> None:
    """It stored the task, of which no worker of this application ever hears."""
    task: Any = app.tasks["add"]
    with server.database() as other:
        session = await asyncpg.connect(other)
        (await task.with_options(connection=session).send_async(1)).unwrap_err()
        assert await session.fetchval("SELECT count(*) FROM horsies_tasks") == 0
        await session.close()
    (await task.with_options(connection=connection).send_async(1)).unwrap()


async def test_the_databases_are_compared_once_for_each_connection(app: Horsies, database: str) -> None:
    pool = await asyncpg.create_pool(database, min_size=1, max_size=1)
    asked: list[str] = []

    def note(record: Any) -> None:
        asked.append(record.query.split()[1])

    for _ in range(2):
        async with pool.acquire() as mine:
            mine.add_query_logger(note)
            for _ in range(2):
                (await app.tasks["add"].with_options(connection=mine).send_async(1)).unwrap()
    await pool.close()
    names = [name for name in asked if name.endswith(("_of_session", "_one"))]
    assert names == ["database_of_session", "server_of_session", *["enqueue_one"] * 4]


async def test_a_role_that_may_not_ask_for_the_server_sends_and_is_refused_elsewhere(
    app: Horsies, database: str, elsewhere: str, connection: asyncpg.Connection, role: str
) -> None:
    await connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    await connection.execute(f"GRANT SELECT, INSERT ON horsies_tasks TO {role}")
    task: Any = app.tasks["add"]
    async with asyncpg_transaction(url_with(database, role=role)) as (mine, _):
        (await task.with_options(connection=mine).send_async(1)).unwrap()
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1
    with pytest.raises(asyncpg.RaiseError, match="connection= is to the database 'postgres'"):
        async with asyncpg_transaction(url_with(elsewhere, role=role)) as (mine, _):
            await task.with_options(connection=mine).send_async(1)


@pytest.mark.parametrize(
    ("other", "is_other"),
    [
        (HERE, False),
        (replace(HERE, server=None), False),
        (replace(HERE, server=8), True),
        (replace(HERE, oid=16_385), True),
        (replace(HERE, name="b", server=None), True),
    ],
)
def test_two_sessions_are_in_one_database_if_nothing_that_is_known_differs(
    other: SessionDatabase, is_other: bool
) -> None:
    assert (HERE.is_other_than(other), other.is_other_than(HERE)) == (is_other, is_other)


async def test_a_server_that_was_upgraded_is_asked_again_before_a_refusal(app: Horsies, database: str) -> None:
    """pg_upgrade gives the server another identifier, while the program runs on."""
    task: Any = app.tasks["add"]
    async with asyncpg_transaction(database) as (mine, _):
        (await task.with_options(connection=mine).send_async(1)).unwrap()
        own = app.get_broker()._database
        assert own._known is not None
        own._known = replace(own._known, server=1)
        (await task.with_options(connection=mine).send_async(1)).unwrap()
        assert own._known.server != 1


async def test_while_the_applications_database_cannot_be_asked_sends_go_ahead_with_one_warning(
    database: str, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    unreached = application("postgresql://u:hunter2@127.0.0.1:1/own")

    def work() -> None:
        with psycopg2_transaction(database) as (mine, _):
            for _ in range(3):
                unreached.tasks["add"].with_options(connection=mine).send(1).unwrap()

    with caplog.at_level(logging.WARNING, "horsies"):
        await asyncio.to_thread(work)
    (record,) = caplog.records
    assert record.getMessage().startswith("cannot compare the database of connection= with that of the application: ")
    assert "hunter2" not in record.getMessage()
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 3
    unreached.get_broker().close()
