"""The sessions that hold up ours, how to end them, and questions to the worker of a running task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest
from database_server import new_role, url_with
from lifecycle_steps import ME, enqueue, running
from operation_steps import OPS, heard, snapshot
from statements import statement
from until import until

from horsies.findings.blockers import blockers
from horsies.operations.looking import answer_to, ask_again, close, look_at
from horsies.operations.target import OperationError
from horsies.run.worker.orders import LOOKS_CHANNEL
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


async def test_the_read_that_it_explains_needs_the_table(connection: asyncpg.Connection, psql) -> None:
    """Otherwise the tests above would prove nothing about the console's reads."""
    async with psql.transaction():
        await psql.execute(LOCK)
        await connection.execute("SET lock_timeout = '10ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await cluster_status(connection)


STACK = {"how": "python", "frames": [], "threads": []}


async def asked(conn: asyncpg.Connection, worker: str = ME) -> list[asyncpg.Record]:
    return await conn.fetch(statement("looks_asked"), worker)


async def answer(conn: asyncpg.Connection, *looks: asyncpg.Record) -> None:
    columns = [look["look_id"] for look in looks], [look["asked_at"] for look in looks]
    await conn.execute(statement("looks_answer"), *columns, [json.dumps(STACK)] * len(looks))


async def test_a_question_reaches_the_worker_that_holds_the_claim(connection: asyncpg.Connection) -> None:
    (token,) = await running(connection, "t")
    told = await heard(connection, LOOKS_CHANNEL)
    look = await look_at(connection, OPS, "t", "stack", with_locals=True, reason="slow")
    assert (look.task_id, look.worker_id, look.claimed_at) == ("t", ME, token.claimed_at)
    (question,) = await asked(connection)
    assert (question["task_id"], question["claimed_at"], question["with_locals"]) == ("t", token.claimed_at, True)
    assert await asked(connection, "another") == []
    assert told == [ME]
    row = await connection.fetchrow(
        "SELECT verb, target_id, outcome, reason, after_state FROM horsies_operator_actions"
    )
    assert tuple(row)[:4] == ("look", "t", "applied", "slow")
    assert json.loads(row["after_state"]) == {"worker_id": ME, "kind": "stack", "with_locals": True}


async def test_each_question_is_answered_once(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    look = await look_at(connection, OPS, "t", "stack")
    (first,) = await asked(connection)
    await answer(connection, first)
    found = await answer_to(connection, look, 0)
    assert (found.found, found.holds, found.status) == (STACK, True, "RUNNING")
    assert await asked(connection) == []
    await ask_again(connection, look)
    await ask_again(connection, look)
    (second,) = await asked(connection)
    await answer(connection, first)
    assert (await answer_to(connection, look, 0)).found is None, "that was the answer to the last question"
    await answer(connection, second)
    assert (await answer_to(connection, look, 0)).found == STACK
    await close(connection, look)
    await ask_again(connection, look)
    assert await asked(connection) == []


async def test_no_answer_says_how_long_the_worker_has_been_silent(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    look = await look_at(connection, OPS, "t", "stack")
    assert (await answer_to(connection, look, 0)).silent_for is None
    await snapshot(connection, ME)
    await connection.execute("UPDATE horsies_worker_states SET snapshot_at = now() - interval '90 s'")
    found = await answer_to(connection, look, 0)
    assert found.silent_for is not None
    assert 89 < found.silent_for.total_seconds() < 95


@pytest.mark.parametrize("status", ["PENDING", "CLAIMED", "COMPLETED"])
async def test_only_a_running_task_is_asked_for(connection: asyncpg.Connection, status: str) -> None:
    await enqueue(connection, "t", status=f"'{status}'")
    with pytest.raises(OperationError, match=f"task t is {status}: only a running task has a stack or output to show"):
        await look_at(connection, OPS, "t", "stack")
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0
    with pytest.raises(OperationError, match="no task has the id nope"):
        await look_at(connection, OPS, "nope", "stack")


async def test_a_request_that_is_too_old_is_not_answered_and_is_pruned(connection: asyncpg.Connection) -> None:
    rows = [(uuid4(), age) for age in ("10 s", "2 min", "2 h")]
    for look_id, age in rows:
        await connection.execute(
            "INSERT INTO horsies_looks (look_id, task_id, worker_id, claimed_at, kind, asked_at)"
            f" VALUES ($1, 't', $2, now(), 'stack', now() - interval '{age}')",
            look_id,
            ME,
        )
    assert [row["look_id"] for row in await asked(connection)] == [rows[0][0]]
    await connection.execute(statement("looks_prune"))
    left = await connection.fetch("SELECT look_id FROM horsies_looks ORDER BY asked_at DESC")
    assert [row["look_id"] for row in left] == [rows[0][0], rows[1][0]]


async def test_a_role_that_may_not_write_gets_the_grant(connection: asyncpg.Connection, role: str) -> None:
    await running(connection, "t")
    await connection.execute(f"GRANT SELECT, INSERT, UPDATE ON horsies_tasks, horsies_task_attempts TO {role}")
    await connection.execute(f"GRANT SELECT, INSERT ON horsies_operator_actions TO {role}")
    await connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}; SET ROLE {role}")
    with pytest.raises(OperationError, match="lacks SELECT ON horsies_looks"):
        await look_at(connection, OPS, "t", "stack")
    await connection.execute("RESET ROLE")
