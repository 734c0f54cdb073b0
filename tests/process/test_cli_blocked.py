"""Commands while another session locks our tables: they end with the session's name, and can end the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest
from cli_steps import horsies
from database_server import url_with
from until import until

from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS

pytestmark = pytest.mark.usefixtures("here")

LOCK = "LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE"


@asynccontextmanager
async def locked(database: str) -> AsyncIterator[asyncpg.Connection]:
    """A psql that forgot its transaction; ended at the end of the block, if it was not before."""
    psql = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    await psql.execute(f"BEGIN; {LOCK}")
    try:
        yield psql
    finally:
        psql.terminate()


@asynccontextmanager
async def waiting(database: str, watcher: asyncpg.Connection) -> AsyncIterator[None]:
    """A worker that waits for the lock."""
    worker = await asyncpg.connect(database, server_settings={"application_name": "horsies worker 1"})
    waits = asyncio.ensure_future(worker.fetch("SELECT FROM horsies_tasks"))
    waiter = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await until(watcher, f"EXISTS (SELECT {waiter})")
    try:
        yield
    finally:
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        worker.terminate()


@pytest.mark.parametrize("words", [["status"], ["tasks", "ls"], ["recovery", "ls"], ["tasks", "cancel", "x", "--yes"]])
async def test_a_command_that_waits_for_a_lock_ends_and_names_its_holder(database: str, words: list[str]) -> None:
    async with locked(database) as psql:
        pid = psql.get_server_pid()
        told = await horsies(*words)
    assert told.code == 75
    assert f"blocked by pid {pid} psql" in told.words
    assert f"idle in transaction after BEGIN; {LOCK}" in told.words
    assert f"`horsies sessions terminate {pid}` ends it" in told.words
    assert told.out == ""


async def test_doctor_fails_with_the_holder_of_the_lock(database: str, connection: asyncpg.Connection) -> None:
    async with locked(database) as psql, waiting(database, connection):
        told = await horsies("doctor")
        assert told.code == 1
        assert f"horsies_tasks is locked, 1 session waits: blocked by pid {psql.get_server_pid()} psql" in told.words


async def test_sessions_are_listed_and_ended_by_pid_with_an_audit_row(
    database: str, connection: asyncpg.Connection
) -> None:
    assert (await horsies("sessions", "ls")).words == "no session of ours waits for a lock"
    async with locked(database) as psql:
        pid = str(psql.get_server_pid())
        async with waiting(database, connection):
            listed = await horsies("sessions", "ls", "--json")
            assert (listed.code, [one["pid"] for one in listed.json["sessions"]]) == (1, [int(pid)])
            assert "psql" in (await horsies("sessions", "ls")).out
            assert "it runs no statement" in (await horsies("sessions", "cancel", pid, "--yes")).words
            ended = await horsies("sessions", "terminate", pid, "--yes", "--reason", "forgotten")
            assert (ended.code, "1 terminated" in ended.words) == (0, True)
    rows = await connection.fetch("SELECT verb, target_id, outcome, reason FROM horsies_operator_actions")
    assert [tuple(row) for row in rows if row["outcome"] == "applied"] == [("terminate", pid, "applied", "forgotten")]


async def test_a_session_that_came_after_the_preview_with_the_same_pid_is_not_ended(
    database: str, connection: asyncpg.Connection
) -> None:
    """Process ids are used again: the statement compares when the session began."""
    async with locked(database) as psql:
        seen = await preview(connection, VERBS["session", "terminate"], Selection.of_ids([str(psql.get_server_pid())]))
        (target,) = seen.eligible
        object.__setattr__(target.seen, "started_at", target.seen.started_at - timedelta(microseconds=1))
        outcome = await apply(connection, seen, Actor.current(), None)
        assert [row.applied for row in outcome.rows] == [False]
        assert await psql.fetchval("SELECT 1") == 1


async def test_a_role_without_the_right_learns_what_to_grant(
    database: str, connection: asyncpg.Connection, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    await connection.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
    async with locked(database) as psql:
        monkeypatch.setenv("HORSIES_DATABASE_URL", url_with(database, role=role))
        told = await horsies("sessions", "terminate", str(psql.get_server_pid()), "--yes")
        assert "only a superuser may end a session of a superuser" in told.words
        assert await psql.fetchval("SELECT 1") == 1
    assert "there is no such session" in (await horsies("sessions", "terminate", "x1", "--yes")).words
