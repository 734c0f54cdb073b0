"""The producer's connections: their configured number and age, and none is closed in the middle of a statement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
from until import PRODUCERS, until

from horsies.config.app import PostgresConfig
from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database, DatabaseUnavailable, is_transient
from horsies.store.pool import Pool


@pytest.fixture
async def make(database: str) -> AsyncIterator[Callable[..., Pool]]:
    made: list[Pool] = []

    def make(*, behind_pooler: bool = False, **settings: Any) -> Pool:
        config = PostgresConfig(database_url=database, **settings)
        target = Database(DatabaseUrl.parse(database), "in a test", None)
        made.append(Pool(target, config, role="producer", behind_pooler=behind_pooler))
        return made[-1]

    yield make
    for pool in made:
        await pool.close()


async def sessions(connection: asyncpg.Connection) -> int:
    return await connection.fetchval(f"SELECT count(*) {PRODUCERS}")


async def test_one_connection_serves_one_after_the_other(
    make: Callable[..., Pool], connection: asyncpg.Connection
) -> None:
    pool = make()
    assert await sessions(connection) == 0
    first = await pool.acquire()
    pool.release(first, sound=True)
    assert await pool.acquire() is first
    assert await sessions(connection) == 1


async def test_the_overflow_is_opened_at_need_and_not_kept(
    make: Callable[..., Pool], connection: asyncpg.Connection
) -> None:
    pool = make(pool_size=1, max_overflow=2)
    taken = [await pool.acquire() for _ in range(3)]
    assert await sessions(connection) == 3
    for each in taken:
        pool.release(each, sound=True)
    await until(connection, f"(SELECT count(*) {PRODUCERS}) = 1")
    assert await pool.acquire() is taken[0]


async def test_who_finds_all_in_use_waits_and_is_told_in_the_end(make: Callable[..., Pool]) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=1)
    taken = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    pool.release(taken, sound=True)
    assert await waiting is taken
    impatient = make(pool_size=1, max_overflow=0, pool_timeout=0)
    await impatient.acquire()
    with pytest.raises(DatabaseUnavailable, match="all 1 connections of the pool have been in use for 0 s") as refused:
        await impatient.acquire()
    assert is_transient(refused.value)


async def test_a_connection_left_in_the_middle_is_closed_and_its_place_is_free(make: Callable[..., Pool]) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=0)
    broken = await pool.acquire()
    pool.release(broken, sound=False)
    assert broken.is_closed()
    assert await pool.acquire() is not broken


async def test_a_failed_attempt_to_connect_keeps_no_place(make: Callable[..., Pool], database: str) -> None:
    pool = make(pool_size=1, max_overflow=0, pool_timeout=0)
    reachable = pool._database
    pool._database = Database(DatabaseUrl.parse("postgresql://localhost:1/x"), "in a test", None)
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable, match="cannot connect"):
            await pool.acquire()
    pool._database = reachable
    assert not (await pool.acquire()).is_closed()


@pytest.mark.parametrize(("recycle", "kept"), [(0, False), (1800, True), (-1, True)])
async def test_an_old_connection_is_replaced(make: Callable[..., Pool], recycle: int, kept: bool) -> None:
    pool = make(pool_recycle=recycle)
    first = await pool.acquire()
    pool.release(first, sound=True)
    assert (await pool.acquire() is first) == kept
    assert first.is_closed() != kept


async def test_a_closed_pool_opens_nothing(make: Callable[..., Pool], connection: asyncpg.Connection) -> None:
    pool = make()
    in_use, idle = await pool.acquire(), await pool.acquire()
    pool.release(idle, sound=True)
    await pool.close()
    assert in_use.is_closed()
    assert idle.is_closed()
    with pytest.raises(DatabaseUnavailable, match="have been closed") as refused:
        await pool.acquire()
    assert not is_transient(refused.value)
    await until(connection, f"NOT EXISTS (SELECT {PRODUCERS})")


@pytest.mark.parametrize("behind_pooler", [False, True])
async def test_statements_are_prepared_only_where_one_backend_keeps_them(
    make: Callable[..., Pool], behind_pooler: bool
) -> None:
    connection = await make(behind_pooler=behind_pooler).acquire()
    for _ in range(2):
        await connection.fetch("SELECT $1::int", 1)
    names = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int' AND name <> ''"
    assert await connection.fetchval(names) == (0 if behind_pooler else 1)


async def test_echo_logs_each_statement_without_its_values(
    make: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "horsies.sql")
    connection = await make(echo=True).acquire()
    await connection.fetch("SELECT $1::text\n  AS secret", "hunter2")
    await asyncio.sleep(0)  # the driver logs in the next turn of the loop
    assert [record.getMessage().partition(" [")[0] for record in caplog.records] == ["SELECT $1::text AS secret"]
    assert "hunter2" not in caplog.text
