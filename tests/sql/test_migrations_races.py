"""Migrations under load: many processes at once, a kill in the middle, a locked table."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import asyncpg
import pytest

from horsies.store.embedded import EmbeddedServer
from horsies.store.embedded.binaries import find_programs
from horsies.store.schema import (
    LOCK_KEY,
    MIGRATIONS,
    Migration,
    SchemaError,
    SchemaKind,
    create,
    inspect_schema,
    require_current,
    script,
    upgrade,
)

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")
ALL_NAMES = [migration.name for migration in MIGRATIONS]

# A separate process: reports when it is connected, waits for the signal to start, and reports what it has applied.
RUNNER = """
import asyncio, sys, asyncpg
from horsies.store.schema import create, upgrade

async def main(verb, url):
    connection = await asyncpg.connect(url)
    print("ready", flush=True)
    await connection.execute("SELECT pg_advisory_lock_shared(42)")
    applied = await {"create": create, "upgrade": upgrade}[verb](connection)
    print(*(migration.name for migration in applied), flush=True)
    await connection.close()

asyncio.run(main(*sys.argv[1:]))
"""

WAITING = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE NOT granted AND datname = $1"
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL ($1::int[])"
NEW_COLUMNS = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'is_workflow_task'"


async def start_runner(verb: str, url: str) -> asyncio.subprocess.Process:
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, verb, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert runner.stdout is not None
    assert await runner.stdout.readline() == b"ready\n", await runner.stderr.read() if runner.stderr else b""
    return runner


async def until(connection: asyncpg.Connection, query: str, *args: object, is_: int) -> None:
    """Repeat the query until it returns the expected value."""
    async with asyncio.timeout(20):
        while await connection.fetchval(query, *args) != is_:
            continue


async def database_name(connection: asyncpg.Connection) -> str:
    return await connection.fetchval("SELECT current_database()")


@pytest.fixture
async def watcher(empty_database: str):
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


@pytest.fixture
async def holder(empty_database: str):
    """A session whose transaction locks a table of upstream's."""
    connection = await asyncpg.connect(empty_database, server_settings={"application_name": "a long report"})
    await connection.execute(UPSTREAM_SHAPE)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("LOCK TABLE horsies_workflow_tasks")
    yield connection
    await connection.close()


@pytest.mark.chaos  # two seconds of processor time; five at once: the test below
async def test_ten_processes_at_once_on_an_empty_database_make_it_once(
    empty_database: str, watcher: asyncpg.Connection
) -> None:
    await watcher.execute("SELECT pg_advisory_lock(42)")
    runners = await asyncio.gather(*(start_runner("create", empty_database) for _ in range(10)))
    await watcher.execute("SELECT pg_advisory_unlock(42)")
    outputs = await asyncio.gather(*(runner.communicate() for runner in runners))
    assert [(runner.returncode, error) for runner, (_, error) in zip(runners, outputs, strict=True)] == [(0, b"")] * 10
    assert sorted(output.decode().split() for output, _ in outputs) == [*([[]] * 9), ALL_NAMES]
    assert [row[0] for row in await watcher.fetch("SELECT name FROM horsies_console_schema ORDER BY 1")] == sorted(
        ALL_NAMES
    )
    await require_current(watcher)


async def test_a_process_killed_in_the_middle_leaves_nothing_half_done(
    empty_database: str, holder: asyncpg.Connection, watcher: asyncpg.Connection
) -> None:
    runner = await start_runner("upgrade", empty_database)
    await until(watcher, WAITING, await database_name(watcher), is_=1)
    runner.kill()
    await runner.wait()
    await holder.close()
    await until(watcher, OTHERS, [watcher.get_server_pid()], is_=0)
    assert await watcher.fetchval(NEW_COLUMNS) == 0
    assert (await inspect_schema(watcher)).kind is SchemaKind.UPSTREAM
    assert [migration.name for migration in await upgrade(watcher)] == ALL_NAMES


async def test_a_server_session_ended_in_the_middle_leaves_nothing_half_done(
    empty_database: str, holder: asyncpg.Connection, watcher: asyncpg.Connection
) -> None:
    upgrading = await asyncpg.connect(empty_database)
    pid = upgrading.get_server_pid()
    attempt = asyncio.create_task(upgrade(upgrading))
    await until(watcher, WAITING, await database_name(watcher), is_=1)
    await watcher.execute("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)) as caught:
        await attempt
    assert not isinstance(caught.value, SchemaError)
    await holder.close()
    await until(watcher, OTHERS, [watcher.get_server_pid()], is_=0)
    assert await watcher.fetchval(NEW_COLUMNS) == 0
    assert [migration.name for migration in await upgrade(watcher)] == ALL_NAMES


async def test_a_held_table_is_named_with_its_holder_and_the_way_out(
    holder: asyncpg.Connection, watcher: asyncpg.Connection
) -> None:
    with pytest.raises(SchemaError) as caught:
        await upgrade(watcher, lock_timeout=0.05)
    error, pid = caught.value, holder.get_server_pid()
    assert error.message == (
        "the migration of schema public from version 0 was aborted and changed nothing:"
        " another session has locked a table that it needs exclusively"
    )
    (note,) = error.notes
    held = rf"horsies_workflow_tasks is locked by pid {pid} \(a long report, idle in transaction for \d+ s\)"
    assert re.fullmatch(held, note)
    assert error.help_text == (
        f"let it finish, or end it with SELECT pg_terminate_backend({pid}), then run `horsies db upgrade` again"
    )
    assert await watcher.fetchval(NEW_COLUMNS) == 0
    await watcher.execute(f"SELECT pg_terminate_backend({pid})")
    assert [migration.name for migration in await upgrade(watcher)] == ALL_NAMES


async def test_a_deadlock_with_another_session_is_explained_like_a_locked_table(
    empty_database: str, holder: asyncpg.Connection, watcher: asyncpg.Connection
) -> None:
    await holder.execute("SET deadlock_timeout = '1min'")  # so that the migration is the one that is cancelled
    upgrading = await asyncpg.connect(empty_database, server_settings={"deadlock_timeout": "300ms"})
    attempt = asyncio.create_task(upgrade(upgrading))
    await until(watcher, WAITING, await database_name(watcher), is_=1)
    assert await holder.fetchval("SELECT count(*) FROM horsies_tasks") == 10
    with pytest.raises(SchemaError, match="another session has locked a table") as caught:
        await attempt
    assert isinstance(caught.value.__cause__, asyncpg.DeadlockDetectedError)
    await upgrading.close()


async def test_another_migration_is_waited_for_beyond_the_lock_timeout(
    empty_database: str, watcher: asyncpg.Connection
) -> None:
    migrating = await asyncpg.connect(empty_database)
    async with migrating.transaction():
        await migrating.execute(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
        await watcher.execute("SET lock_timeout = '1ms'")
        waiting = asyncio.create_task(create(watcher))
        await until(migrating, WAITING, await database_name(migrating), is_=1)
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
    assert [migration.name for migration in await waiting] == ALL_NAMES
    await migrating.close()


async def psql(embedded_server: EmbeddedServer, url: str, text: str, *options: str) -> tuple[int | None, str]:
    programs = find_programs(embedded_server.place)
    process = await asyncio.create_subprocess_exec(
        programs.bin / "psql", "-X", "-q", *options, url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate(text.encode())
    return process.returncode, errors.decode()


async def test_the_script_fed_to_psql_makes_the_same_schema(
    embedded_server: EmbeddedServer, empty_database: str, watcher: asyncpg.Connection, connection: asyncpg.Connection
) -> None:
    state = await inspect_schema(watcher)
    assert await psql(embedded_server, empty_database, script(state.pending, state.schema)) == (0, "")
    await require_current(watcher)
    for catalog in (
        "SELECT table_name, column_name, data_type, column_default FROM information_schema.columns"
        " WHERE table_schema = 'public' ORDER BY 1, 2",
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
        "SELECT version, name FROM horsies_console_schema ORDER BY 1",
    ):
        assert await watcher.fetch(catalog) == await connection.fetch(catalog)


async def test_the_script_adopts_a_database_of_upstream(
    embedded_server: EmbeddedServer, empty_database: str, watcher: asyncpg.Connection
) -> None:
    await watcher.execute(UPSTREAM_SHAPE)
    state = await inspect_schema(watcher)
    assert await psql(embedded_server, empty_database, script(state.pending, state.schema)) == (0, "")
    await require_current(watcher)


async def test_a_script_run_a_second_time_is_refused_and_changes_nothing(
    embedded_server: EmbeddedServer, empty_database: str, watcher: asyncpg.Connection
) -> None:
    await create(watcher)
    before = await watcher.fetch("SELECT * FROM horsies_console_schema")
    _, errors = await psql(embedded_server, empty_database, script(MIGRATIONS, "public"))
    assert "migration 16 is already applied, or the one before it is not" in errors
    assert await watcher.fetch("SELECT * FROM horsies_console_schema") == before


async def test_a_script_without_its_first_migration_is_refused(
    embedded_server: EmbeddedServer, empty_database: str, watcher: asyncpg.Connection
) -> None:
    later = Migration(17, "later", "CREATE TABLE IF NOT EXISTS later (id integer);")
    _, errors = await psql(embedded_server, empty_database, script([later], "public"))
    assert "migration 17 is already applied, or the one before it is not" in errors
    assert (await inspect_schema(watcher)).kind is SchemaKind.EMPTY
