"""Commands while another session locks our tables end with the session's name; `horsies doctor` finds faults."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

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


async def test_a_command_that_waits_for_a_lock_ends_and_names_its_holder(
    database: str, connection: asyncpg.Connection
) -> None:
    async with locked(database) as psql:
        pid = psql.get_server_pid()
        for words in (["status"], ["tasks", "ls"], ["recovery", "ls"], ["tasks", "cancel", "x", "--yes"]):
            told = await horsies(*words)
            assert (told.code, told.out) == (75, ""), words
            assert f"blocked by pid {pid} psql" in told.words
            assert f"idle in transaction after BEGIN; {LOCK}" in told.words
            assert f"`horsies sessions terminate {pid}` ends it" in told.words
        async with waiting(database, connection):
            told = await horsies("doctor")
            assert told.code == 1
            assert f"horsies_tasks is locked, 1 session waits: blocked by pid {pid} psql" in told.words


async def test_sessions_are_listed_and_ended_by_pid_with_an_audit_row(
    database: str, connection: asyncpg.Connection
) -> None:
    assert (await horsies("sessions", "ls")).words == "no session of horsies waits for a lock"
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


APP = """
from horsies import AppConfig, Horsies, PostgresConfig
app = Horsies(AppConfig(broker=PostgresConfig(database_url={!r}, pool_size=3, max_overflow=4)))
"""


async def test_a_database_that_is_well_is_one_line_for_each_check_with_the_settings_of_an_application(
    database: str, role: str, tmp_path: Path
) -> None:
    told = await horsies("doctor", "--database-url", database)
    first, *lines = told.out.splitlines()
    assert (told.code, told.err) == (0, "")
    assert first.endswith((": well", ": 1 unknown"))
    # The disk of a server in a container cannot be read from here.
    assert {line[:10] for line in lines if "disk  " not in line and "→" not in line} == {"✓ ok      "}
    names = [line.split("  ")[0] for line in (line[10:] for line in lines)]
    assert names[:4] == ["schema", "search path", "connections", "pooler"]
    told = await horsies("doctor", "--database-url", url_with(database, role=role))
    assert re.search(r"^\? unknown indexes  ", told.out, re.MULTILINE), "no verdict runs into the name of its check"
    path = tmp_path / "doctored.py"
    path.write_text(APP.format(database))
    told = await horsies("doctor", f"{path}:app", "--json")
    assert told.code == 0
    found = {line["check"]: line["evidence"] for line in told.json["lines"]}
    assert "each process of the application that sends may open up to 8" in found["connections"]
    assert found["retention"].endswith("(by the application)")


async def test_what_fails_is_shown_with_its_remedy_and_makes_the_exit_code_1(
    connection: asyncpg.Connection, database: str
) -> None:
    await connection.execute("DROP INDEX ix_horsies_tasks_finished")
    told = await horsies("doctor", "--database-url", database)
    assert (told.code, told.out.splitlines()[0].partition(": ")[2]) == (0, "1 warn")
    assert "▲ warn    indexes                ix_horsies_tasks_finished is missing\n" in told.out
    assert f"{' ' * 33}→ CREATE INDEX CONCURRENTLY ix_horsies_tasks_finished ON horsies_tasks" in told.out
    await connection.execute("DROP INDEX ix_horsies_tasks_ready")
    told = await horsies("doctor", "--database-url", database, "--json")
    assert told.code == 1
    counts = told.json["counts"]
    assert (counts["ok"] + counts["unknown"], counts["warn"], counts["fail"]) == (15, 1, 2)
    assert set(told.json) == {"database", "now", "counts", "lines"}
    schema = told.json["lines"][0]
    assert set(schema) == {"check", "verdict", "evidence", "remedy"}
    assert (schema["check"], schema["verdict"]) == ("schema", "fail")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--database-url", "postgresql://me:secret@localhost:1/none"], 1, "cannot connect to localhost:1"),
        (["no_such_module:app"], 1, "there is no module 'no_such_module'"),
        (["postgresql://me:secret@localhost:1/none"], 2, "write --database-url before it"),
        (["--nonsense"], 2, "No such option"),
    ],
)
async def test_without_a_database_there_is_one_clear_error(words: list[str], code: int, text: str) -> None:
    told = await horsies("doctor", *words)
    assert (told.code, told.out) == (code, "")
    assert text in told.words
    assert "secret" not in told.words
