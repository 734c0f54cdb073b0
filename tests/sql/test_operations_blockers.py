"""The sessions that hold up ours: found while our tables are locked, with what they do and how to end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from database_server import new_role, url_with
from until import until

from horsies.findings.blockers import blockers
from horsies.views import cluster_status

LOCK = "LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE"
WAITS = """EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity session USING (pid)
                    WHERE NOT granted AND session.datname = current_database())"""


@pytest.fixture
async def psql(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    yield connected
    await connected.close()


@asynccontextmanager
async def held_up(database: str, watcher: asyncpg.Connection, statement: str) -> AsyncIterator[None]:
    """A session of ours that waits for a lock."""
    ours = await asyncpg.connect(database, server_settings={"application_name": "horsies worker 1"})
    waiting = asyncio.create_task(ours.execute(statement))
    try:
        await until(watcher, WAITS)
        yield
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await ours.close(timeout=5)


async def test_a_locked_table_names_the_session_that_locked_it(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    assert await blockers(connection) == ()
    async with psql.transaction():
        await psql.execute(LOCK)
        assert await blockers(connection) == ()  # it is in nobody's way yet
        async with held_up(database, connection, "SELECT count(*) FROM horsies_tasks"):
            (found,) = await blockers(connection)
    assert (found.pid, found.application, found.blocked) == (psql.get_server_pid(), "psql", 1)
    assert found.table == "horsies_tasks"
    assert found.sentence.startswith(f"1 session on horsies_tasks blocked by pid {found.pid} psql ")
    assert f"idle in transaction after {LOCK}, for 0s; open for 0s" in found.sentence
    assert found.remedy == f"horsies sessions terminate {found.pid}"


async def test_of_a_queue_of_locks_the_first_one_is_named(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    """A migration that waits for a report blocks all readers, but it is the report that has to end."""
    report = await asyncpg.connect(database, server_settings={"application_name": "report"})
    async with report.transaction():
        await report.execute("SELECT count(*) FROM horsies_tasks")
        migration = asyncio.create_task(psql.execute("ALTER TABLE horsies_tasks ADD COLUMN later text"))
        await until(connection, WAITS)
        async with held_up(database, connection, "SELECT count(*) FROM horsies_tasks"):
            (found,) = await blockers(connection, readers_only=False)
            (of_readers,) = await blockers(connection)
    await migration
    await report.close()
    assert (found.application, found.blocked) == ("report", 2)
    assert (of_readers.application, of_readers.blocked) == ("report", 1)


async def test_a_worker_that_waits_for_a_row_or_to_write_is_not_why_a_read_is_slow(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    """A long export would end, and the console would offer to end a session that is in no reader's way."""
    await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'a', 'default')")
    for lock in ("SELECT FROM horsies_tasks FOR UPDATE", "LOCK TABLE horsies_tasks IN SHARE MODE"):
        async with psql.transaction():
            await psql.execute(lock)
            async with held_up(database, connection, "UPDATE horsies_tasks SET priority = 1"):
                assert await blockers(connection) == ()
                (found,) = await blockers(connection, readers_only=False)
                assert found.application == "psql"


async def test_values_in_its_statement_and_what_steers_a_terminal_are_not_shown(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    async with psql.transaction():
        await psql.execute("SET LOCAL application_name = 'ps\x1b[31mql'")
        await psql.execute(f"{LOCK}; SELECT 'a secret', $q$ one\nmore $q$ \"\x9b31m\"")
        async with held_up(database, connection, "SELECT count(*) FROM horsies_tasks"):
            (found,) = await blockers(connection)
    assert found.statement == f"{LOCK}; SELECT '…', '…' \" 31m\""
    assert found.sentence.isprintable()


async def test_a_role_without_rights_learns_the_pid_at_least(
    database: str, connection: asyncpg.Connection, psql: asyncpg.Connection
) -> None:
    async with psql.transaction(), new_role(connection) as role:
        await psql.execute(LOCK)
        async with held_up(database, connection, "SELECT count(*) FROM horsies_tasks"):
            viewer = await asyncpg.connect(url_with(database, role=role))
            (found,) = await blockers(viewer)
            await viewer.close()
    assert found.pid == psql.get_server_pid()
    assert f"blocked by pid {found.pid}" in found.cause
    assert found.cause.endswith("with a statement that this role may not see")


async def test_the_read_that_it_explains_needs_the_table(connection: asyncpg.Connection, database: str, psql) -> None:
    """Otherwise the tests above would prove nothing about the console's reads."""
    async with psql.transaction():
        await psql.execute(LOCK)
        await connection.execute("SET lock_timeout = '10ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await cluster_status(connection)
