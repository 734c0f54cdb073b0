"""Commands in a terminal: questions, widths, colours, progress bars, and ctrl+c."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from cli_steps import failed, insert, running, said, statuses
from cli_terminal import ESCAPES, Terminal
from forked_commands import Command, run_command

from horsies.display.terminal import width_of


@pytest.fixture
def environ(database: str, tmp_path: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return {
        **inherited,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "HORSIES_DATABASE_URL": database,
    }


def asked(environ: dict[str, str], answer: str, *words: str) -> tuple[int, Terminal]:
    """Answer the only question of a command; returns its exit code."""
    with Terminal(environ, *words) as terminal:
        terminal.until("to continue: ")
        terminal.type(answer)
        return terminal.end(), terminal


async def in_thread(environ: dict[str, str], answer: str, *words: str) -> tuple[int, Terminal]:
    return await asyncio.to_thread(asked, environ, answer, *words)


async def test_a_few_rows_are_confirmed_by_y(environ: dict[str, str], connection: asyncpg.Connection) -> None:
    await failed(connection, "t")
    for answer, code, status in (("\n", 1, "FAILED"), ("yes please\n", 1, "FAILED"), ("Y\n", 0, "PENDING")):
        ended, terminal = await in_thread(environ, answer, "tasks", "requeue", "t")
        assert (ended, await statuses(connection)) == (code, {"t": status}), terminal.text
        assert ("nothing was changed: it was not confirmed" in terminal.text) is (code == 1)


async def test_more_than_twenty_are_confirmed_by_their_number(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    await failed(connection, *(f"f{number}" for number in range(21)))
    for answer, code, status in (("y\n", 1, "FAILED"), ("20\n", 1, "FAILED"), ("21\n", 0, "PENDING")):
        ended, terminal = await in_thread(environ, answer, "tasks", "requeue", "--filter", "status:failed")
        assert "Type 21 to continue: " in terminal.text
        assert (ended, set((await statuses(connection)).values())) == (code, {status}), terminal.text


async def test_production_is_confirmed_by_its_name(
    environ: dict[str, str], connection: asyncpg.Connection, database: str, tmp_path: Path
) -> None:
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text(f'[contexts.prod]\nurl = "{database}"\nproduction = true\n')
    await failed(connection, "t")
    for answer, code, status in (("y\n", 1, "FAILED"), ("PROD\n", 1, "FAILED"), ("prod\n", 0, "PENDING")):
        ended, terminal = await in_thread(environ, answer, "tasks", "requeue", "t", "--context", "prod")
        assert "prod is a production database. Type its name to continue: " in terminal.text
        assert (ended, await statuses(connection)) == (code, {"t": status}), terminal.text


async def test_one_interrupt_ends_the_question(environ: dict[str, str], connection: asyncpg.Connection) -> None:
    await failed(connection, "t")

    def interrupted() -> int:
        with Terminal(environ, "tasks", "requeue", "t") as terminal:
            terminal.until("to continue: ")
            terminal.interrupt()
            return terminal.end()

    assert await asyncio.to_thread(interrupted) == 130
    assert await statuses(connection) == {"t": "FAILED"}


async def test_an_undo_holds_its_tasks_while_it_asks_and_takes_no_number(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    ids = [f"f{number}" for number in range(30)]
    await failed(connection, *ids)
    here = ("--database-url", environ["HORSIES_DATABASE_URL"])
    requeued = await asyncio.to_thread(said, "tasks", "requeue", *ids, "--yes", "--json", *here)
    claimed = "SELECT cardinality(found_at) FROM horsies_claimable('default', NULL, 50)"
    way_back = requeued.json["undo"].split()[1:4]
    with Terminal(environ, *way_back) as terminal:
        await asyncio.to_thread(terminal.until, "Type y to continue: ")
        assert await connection.fetchval(claimed) is None
        terminal.interrupt()
        assert await asyncio.to_thread(terminal.end) == 130
    assert await connection.fetchval(claimed) == 30, "what is not undone is released"
    code, terminal = await in_thread(environ, "y\n", *way_back)
    assert code == 0, terminal.text
    assert "30 undone" in terminal.text
    assert set((await statuses(connection)).values()) == {"FAILED"}


async def test_what_moved_on_before_the_answer_is_refused(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    """The preview is frozen, and so is the guard: a later task is not touched, and a changed one is reported."""
    await failed(connection, "f1", "f2")
    with Terminal(environ, "tasks", "requeue", "--filter", "status:failed") as terminal:
        await asyncio.to_thread(terminal.until, "to continue: ")
        await connection.execute("UPDATE horsies_tasks SET status = 'COMPLETED' WHERE id = 'f2'")
        await failed(connection, "f3")
        terminal.type("y\n")
        assert await asyncio.to_thread(terminal.end) == 3
    assert "1 requeued, 1 refused" in terminal.text
    assert "it is COMPLETED now" in terminal.text
    assert await statuses(connection) == {"f1": "PENDING", "f2": "COMPLETED", "f3": "FAILED"}


MANY = 30_000


@pytest.mark.chaos  # a second of processor time
async def test_long_work_shows_a_bar_and_stops_between_batches_with_a_true_account(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status)"
        " SELECT 't' || n, 'demo.add', 'default', 'PENDING' FROM generate_series(1, $1) n",
        MANY,
    )
    await connection.execute("ANALYZE horsies_tasks")

    def interrupted() -> tuple[int, Terminal]:
        with Terminal(environ, "tasks", "cancel", "--filter", "status:pending", "--yes") as terminal:
            terminal.until(f"00/{MANY}")
            terminal.interrupt()
            return terminal.end(), terminal

    code, terminal = await asyncio.to_thread(interrupted)
    assert code == 130, terminal.text
    summary = next(line for line in terminal.lines if "not attempted" in line)
    cancelled, left = (int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", summary))
    assert cancelled + left == MANY
    assert 0 < cancelled < MANY
    in_table = await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE status = 'CANCELLED'")
    in_trail = await connection.fetchval("SELECT count(*) FROM horsies_operator_actions")
    assert (in_table, in_trail) == (cancelled, cancelled)


async def test_a_table_fits_its_terminal_and_is_coloured(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    long = "'shop.orders.tasks.send_confirmation_' || repeat('x', 40)"
    await failed(connection, "01a1ee7b-a221-72c9-a53f-c708da913bfb", task_name=long, code="RATE_LIMITED_BY_GATEWAY")
    await running(connection, "t2", task_name="'日本語のタスク名前日本語のタスク名前'", worker_hostname="'web-1'")

    def listed() -> Terminal:
        with Terminal(environ, "tasks", "ls", columns=80) as terminal:
            assert terminal.end() == 0
            return terminal

    terminal = await asyncio.to_thread(listed)
    assert max(map(width_of, terminal.lines)) <= 80
    assert "…da913bfb" in terminal.text
    assert "✗ failed" in terminal.text
    assert "01a1ee7b" not in terminal.text
    assert "QUEUE" in terminal.text
    assert ESCAPES.search(terminal.text)


async def test_bytes_that_are_no_text_are_no_trouble(environ: dict[str, str], connection: asyncpg.Connection) -> None:
    await insert(connection, "t", queue_name="'mail'")
    for words, code in (
        ([b"tasks", b"show", b"caf\xe9"], 4),
        ([b"tasks", b"cancel", b"caf\xe9", b"--yes"], 4),
        ([b"queues", b"pause", b"mail", b"--yes", b"--reason", b"caf\xe9"], 0),
        ([b"tasks", b"cancel", b"t", b"--yes", b"--reason", b"caf\xe9"], 0),
        ([b"audit", b"ls", b"--queue", b"caf\xe9"], 0),
        ([b"tasks", b"ls", b"--filter", b"name:caf\xe9"], 2),
    ):
        done = await asyncio.to_thread(run_command, words, env=environ)
        assert done.returncode == code, (words, done.stderr)
        assert b"--debug" not in done.stderr


def first_line_only(environ: dict[str, str], *words: str) -> tuple[bytes, bytes]:
    """The output to a reader that leaves after one line, and the command's message about it."""
    with Command(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        line = command.stdout.readline()
        command.stdout.close()
        return line, command.stderr.read()


async def test_a_reader_that_closes_the_pipe_early_is_no_error(
    environ: dict[str, str], connection: asyncpg.Connection
) -> None:
    await insert(connection, *(f"t{number}" for number in range(3_000)))
    line, complaint = await asyncio.to_thread(first_line_only, environ, "tasks", "ls", "--limit", "3000")
    assert line.startswith(b"STATE")
    assert complaint == b""


WAITING = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def waits_for_a_lock(connection: asyncpg.Connection) -> None:
    """Wait until the command waits for a lock."""
    async with asyncio.timeout(30):
        while not await connection.fetchval(f"SELECT count(*) {WAITING}"):
            await connection.execute("SELECT pg_sleep(0.01)")


RIGHT_AFTER = """
import os, signal
from horsies.cli.verbs import acting
say = acting.say
def interrupted(*lines, **options):
    say(*lines, **options)
    if acting.STOPPING in lines:
        os.kill(os.getpid(), signal.SIGINT)
acting.say = interrupted
"""


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_second_interrupt_breaks_off_though_the_database_no_longer_answers(
    environ: dict[str, str], connection: asyncpg.Connection, database: str, tmp_path: Path, at_once: bool
) -> None:
    """`at_once`: the second one comes before the work has been told of the first one."""
    if at_once:
        (tmp_path / "sitecustomize.py").write_text(RIGHT_AFTER)
        environ["PYTHONPATH"] = str(tmp_path)
    await failed(connection, "t")
    holder = await asyncpg.connect(database)
    await holder.execute("BEGIN; SELECT FROM horsies_tasks WHERE id = 't' FOR UPDATE")
    async with BlackholeProxy(database) as proxy:
        with Terminal({**environ, "HORSIES_DATABASE_URL": proxy.url}, "tasks", "requeue", "t", "--yes") as terminal:
            await waits_for_a_lock(connection)
            proxy.silence()
            terminal.interrupt()
            await asyncio.to_thread(terminal.until, "ctrl+c again aborts")
            if not at_once:
                terminal.interrupt()
            assert await asyncio.to_thread(terminal.end) == 130
    await holder.close()
    assert "aborted; see `horsies audit ls`" in terminal.text
    assert "Traceback" not in terminal.text


async def test_a_connection_that_is_lost_on_the_way_leaves_a_true_account(
    environ: dict[str, str], connection: asyncpg.Connection, database: str
) -> None:
    await failed(connection, *(f"f{number:05}" for number in range(3_000)))
    holder = await asyncpg.connect(database)
    await holder.execute("BEGIN; SELECT FROM horsies_tasks WHERE id = 'f02999' FOR UPDATE")
    with Terminal(environ, "tasks", "requeue", "--filter", "status:failed", "--yes") as terminal:
        await waits_for_a_lock(connection)
        await connection.execute(f"SELECT pg_terminate_backend(pid) {WAITING}")
        assert await asyncio.to_thread(terminal.end) == 1
    await holder.close()
    summary = next(line for line in terminal.lines if "in doubt" in line)
    assert summary == "2,500 requeued, 500 in doubt"
    assert sorted((await statuses(connection)).values()).count("PENDING") == 2_500
    assert "each row: horsies audit ls --operation" in terminal.text


@pytest.mark.parametrize("group", ["tasks", "workers", "queues", "recovery", "audit", "db"])
def test_every_group_and_every_command_of_it_explains_itself(group: str) -> None:
    """Groups are loaded when they are called; for the help above them they are only a name and a sentence."""
    above = said("--help")
    listed = said(group, "-h")
    assert listed.code == 0
    commands = listed.out.partition("Commands")[2].splitlines()[1:]
    named = [line.split()[1] for line in commands if line.startswith("│ ") and not line.startswith("│  ")]
    assert named
    for name in named:
        assert said(group, name, "--help").code == 0
    assert any(line.split()[1:2] == [group] for line in above.out.splitlines())
    assert f"Did you mean '{named[0]}'?" in said(group, f"{named[0]}x").words
