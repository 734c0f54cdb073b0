"""The `horsies` command as users run it: its options, its exit codes, and its error messages."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import asyncpg
import psutil
import pytest
from database_server import DatabaseServer, new_role, url_with
from forked_commands import HORSIES, Program, run_command

from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.store.connect import Database, DatabaseUnavailable, open_database
from horsies.store.embedded import EmbeddedPlace, EmbeddedServer, acquire
from horsies.store.embedded.trusted_paths import FileLock
from horsies.store.schema import LOCK_KEY


@pytest.fixture
def environ(tmp_path: Path, short_directory: Path) -> dict[str, str]:
    """A user without configuration; an embedded server would be in a directory of this test."""
    inherited = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPYCACHEPREFIX")
        if name in os.environ
    }
    return {
        **inherited,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HORSIES_HOME": str(short_directory),
        "COLUMNS": "100",
    }


def run(environ: dict[str, str], *words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return run_command(words, env=environ, text=True, input=answer)


def fails(environ: dict[str, str], *words: str, code: int = 1) -> str:
    """The stderr of a command that fails without a traceback."""
    done = run(environ, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.bench
@pytest.mark.alone
def test_help_teaches_and_answers_within_three_tenths_of_a_second(environ: dict[str, str]) -> None:
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        said = subprocess.run([HORSIES, "--help"], env=environ, capture_output=True, text=True)
        took.append(time.perf_counter() - begin)
        assert said.returncode == 0
    for words in ("HORSIES_DATABASE_URL", "--context", "embedded", "horsies db status", "--install-completion"):
        assert words in said.stdout
    assert min(took) < 0.3


def test_the_module_is_the_command(environ: dict[str, str]) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "horsies", "--version"], env=environ, capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("horsies ")


def test_without_a_command_it_shows_help_and_a_wrong_command_line_is_exit_code_two(environ: dict[str, str]) -> None:
    said = run(environ)
    assert (said.returncode, "Usage: horsies" in said.stdout) == (1, True)
    assert re.fullmatch(r"horsies \d+\.\d+\.\d+\n", run(environ, "--version").stdout)
    for words in (["dbb"], ["db", "int"], ["db", "init", "--databse-url", "x"]):
        assert "Usage:" in fails(environ, *words, code=2)
    for words in (["db", "status"], ["db"], []):
        refused = fails(environ, *words, "postgresql://u:hunter2@h/d", code=2)
        assert "postgresql://u:***@h/d" in refused
        assert "hunter2" not in refused
    assert "give one" in fails(environ, "db", "status", "--context", "a", "--database-url", "postgresql:///b", code=2)


def test_an_argument_that_is_no_text_is_one_clear_error(environ: dict[str, str]) -> None:
    url = b"postgresql://u:hunter2\xff@127.0.0.1:1/d"
    done = run_command(["db", "status", "--database-url", url], env=environ, text=True)
    assert done.returncode == 1
    assert "error[HRS-203]: cannot connect to 127.0.0.1:1" in done.stderr
    assert "hunter2" not in done.stderr


def test_a_fresh_machine_goes_from_nothing_to_ready(environ: dict[str, str], short_directory: Path) -> None:
    before = run(environ, "db", "status")
    assert before.returncode == 1
    assert "`horsies db init` makes the embedded one" in before.stderr
    made = run(environ, "db", "init")
    assert made.returncode == 0, made.stderr
    assert "is ready" in made.stdout
    assert "note: nothing else is configured" in made.stderr
    assert "nothing to do" in run(environ, "db", "init").stdout
    after = run(environ, "db", "status")
    assert after.returncode == 0
    assert f"{short_directory}/postgres" in after.stdout
    assert "nothing else is configured" in after.stdout
    assert "current" in after.stdout


def test_status_for_machines_says_which_database_and_why(environ: dict[str, str], database: str) -> None:
    said = run({**environ, "HORSIES_DATABASE_URL": database}, "db", "status", "--json")
    report = json.loads(said.stdout)
    assert report["reason"] == "from the environment variable HORSIES_DATABASE_URL"
    assert report["schema"]["state"] == "current"
    assert report["schema"]["pending"] == []
    assert report["embedded_directory"] is None


async def test_the_dry_run_is_sql_that_psql_can_run(environ: dict[str, str], empty_database: str) -> None:
    environ["DATABASE_URL"] = empty_database
    sql = run(environ, "db", "init", "--dry-run")
    assert sql.returncode == 0, sql.stderr
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT to_regclass('horsies_tasks')") is None
    await connection.execute(sql.stdout)
    await connection.close()
    assert run(environ, "db", "status").returncode == 0


async def test_upgrade_and_init_keep_to_their_own_work(environ: dict[str, str], empty_database: str) -> None:
    environ["DATABASE_URL"] = empty_database
    assert "horsies db init" in fails(environ, "db", "upgrade")
    assert "horsies db init" in fails(environ, "db", "upgrade", "--dry-run")
    connection = await asyncpg.connect(empty_database)
    await connection.execute("CREATE TABLE horsies_tasks (id int, title text)")
    await connection.close()
    assert "belongs to another program" in fails(environ, "db", "init")
    assert "belongs to another program" in fails(environ, "db", "upgrade")


def write_config(environ: dict[str, str], text: str) -> None:
    path = Path(environ["XDG_CONFIG_HOME"]) / "horsies" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_a_read_only_context_is_never_written(environ: dict[str, str], empty_database: str) -> None:
    write_config(environ, f'[contexts.mirror]\nurl = "{empty_database}"\nread_only = true\n')
    assert "read-only" in fails(environ, "db", "init", "--context", "mirror")
    assert run(environ, "db", "init", "--dry-run", "--context", "mirror").returncode == 0
    assert "read-only" in run(environ, "db", "status", "--context", "mirror").stdout


def test_a_production_context_wants_its_name_typed_unless_yes_is_given(
    environ: dict[str, str], empty_database: str
) -> None:
    write_config(environ, f'default_context = "prod"\n[contexts.prod]\nurl = "{empty_database}"\nproduction = true\n')
    for answer, why in (("yes\n", "that is not the name"), ("", "there is no terminal to type the name in")):
        refused = run(environ, "db", "init", answer=answer)
        assert refused.returncode == 1
        assert f"nothing was changed: {why}" in refused.stderr
        assert "--yes" in refused.stderr
    assert run(environ, "db", "status").returncode == 1
    done = run(environ, "db", "init", answer="prod\n")
    assert done.returncode == 0, done.stderr
    assert "default context 'prod'" in run(environ, "db", "status").stdout
    assert run(environ, "db", "init", "--context", "prod", "--yes").returncode == 0


def test_an_unknown_context_and_a_malformed_file_are_one_clear_error(environ: dict[str, str]) -> None:
    write_config(environ, "[contexts.prod]\nurl = 'postgresql://h/d'\n")
    said = fails(environ, "db", "status", "--context", "prdo")
    assert "did you mean 'prod'?" in said
    (Path(environ["XDG_CONFIG_HOME"]) / "horsies" / "config.toml").write_text("[contexts")
    assert "not valid TOML" in fails(environ, "db", "status")


def test_a_server_host_database_or_url_that_leads_nowhere_is_one_clear_error(
    environ: dict[str, str], server: DatabaseServer
) -> None:
    said = fails(environ, "db", "status", "--database-url", "postgresql://ops:hunter2@127.0.0.1:1/app")
    for words in ("cannot connect to 127.0.0.1:1", "given by --database-url", "start PostgreSQL there"):
        assert words in said
    assert "hunter2" not in said
    said = fails(environ, "db", "status", "--database-url", "postgresql://ops@no-such-host.invalid/app")
    assert "no-such-host.invalid:5432 cannot be resolved" in said
    said = fails({**environ, "DATABASE_URL": "mysql://u:hunter2@h/d"}, "db", "status")
    assert "mysql:// is not PostgreSQL" in said
    assert "it comes from DATABASE_URL" in said
    assert "hunter2" not in said
    said = fails(environ, "db", "status", "--database-url", url_with(server.url, database="nowhere"))
    assert "there is no database 'nowhere'" in said
    assert "createdb nowhere" in said


@pytest.mark.chaos  # a second of processor time
def test_a_wrong_password_in_another_embedded_directory_is_one_clear_error(
    environ: dict[str, str], short_directory: Path
) -> None:
    """The embedded server trusts its socket, so this one is first configured to ask for passwords."""
    url = f"embedded://{short_directory}/strict"
    assert run(environ, "db", "init", "--database-url", url).returncode == 0
    assert not (short_directory / "postgres").exists()
    hba = short_directory / "strict" / "data" / "pg_hba.conf"
    hba.write_text("local all all scram-sha-256\n")
    holder: Program[bytes] = Program(HOLD, short_directory / "strict", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    socket_url = holder.stdout.readline().decode().strip().replace("horsies@", "horsies:hunter2@")
    said = fails(environ, "db", "status", "--database-url", socket_url)
    holder.communicate(b"\n")
    assert "refuses user 'horsies'" in said
    assert "PGPASSWORD" in said
    assert "hunter2" not in said


HOLD = """
import sys
from pathlib import Path
from horsies.store.embedded import EmbeddedServer, EmbeddedPlace, acquire
with acquire(EmbeddedPlace(Path(sys.argv[1]))) as held:
    print(held.url, flush=True)
    sys.stdin.readline()
"""


async def test_missing_privileges_name_the_grant_that_helps(environ: dict[str, str], empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    async with new_role(connection) as role:
        said = fails(environ, "db", "init", "--database-url", url_with(empty_database, role=role))
    await connection.close()
    assert f"role {role} may not change schema public" in said
    assert f'GRANT USAGE, CREATE ON SCHEMA "public" TO "{role}"' in said


async def test_a_connection_lost_in_the_middle_is_one_clear_error(environ: dict[str, str], empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    await connection.execute(f"SELECT pg_advisory_lock({LOCK_KEY})")
    words = [HORSIES, "db", "init", "--database-url", empty_database]
    command = await asyncio.create_subprocess_exec(*words, env=environ, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not await connection.fetchval(TERMINATE_WAITING_INIT):
        assert time.monotonic() < deadline, "db init does not wait for the lock"
        await connection.execute("SELECT pg_sleep(0.01)")
    _, said = await command.communicate()
    await connection.close()
    assert command.returncode == 1
    assert b"was lost: " in said
    assert b"run the command again" in said
    assert b"Transaction" not in said


TERMINATE_WAITING_INIT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'horsies db init' AND wait_event = 'advisory'
"""


def test_a_statement_that_takes_too_long_is_one_clear_error(environ: dict[str, str], empty_database: str) -> None:
    said = fails(environ, "db", "init", "--database-url", url_with(empty_database, statement_timeout="1"))
    assert "canceling statement due to statement timeout" in said
    assert "?statement_timeout=0" in said


def test_a_url_without_user_says_whose_name_was_taken(environ: dict[str, str], empty_database: str) -> None:
    url = url_with(empty_database, role="")
    said = fails({**environ, "PGUSER": "nobody_here"}, "db", "status", "--database-url", url)
    assert "refuses user 'nobody_here'" in said
    assert "the URL names no user" in said


async def connecting(url: str) -> DatabaseUnavailable:
    with pytest.raises(DatabaseUnavailable) as caught:
        await Database(DatabaseUrl.parse(url), "in a test", None).connect("test")
    return caught.value


async def test_a_process_without_account_is_told_to_name_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.delenv("PGUSER", raising=False)
    error = await connecting("postgresql://127.0.0.1:1/app")
    assert error.message.startswith("no user")
    assert not error.transient


async def test_no_server_of_the_wanted_kind_is_a_state_that_passes(server: DatabaseServer) -> None:
    error = await connecting(url_with(server.url, target_session_attrs="standby"))
    assert error.message == f"none of {DatabaseUrl.parse(server.url).where} is a standby server now"
    assert error.transient


@pytest.mark.parametrize(
    ("answer", "says"), [(b"N", "does not speak TLS"), (b"Snonsense\r\n\r\n", "TLS with PostgreSQL")]
)
async def test_trouble_with_tls_is_named(answer: bytes, says: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(answer[:1])
        if answer[1:]:
            await reader.read(1)  # of its ClientHello
            writer.write(answer[1:])
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        error = await connecting(f"postgresql://u@127.0.0.1:{port}/d?sslmode=require")
    assert says in error.message
    assert "sslmode" in (error.help_text or "")


@pytest.mark.chaos  # a second of processor time
async def test_an_embedded_server_that_is_no_longer_waited_for_is_released(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, has_it, may_return = EmbeddedPlace(short_directory), threading.Event(), threading.Event()

    def slow(place: EmbeddedPlace) -> EmbeddedServer:
        held = acquire(place)
        has_it.set()
        may_return.wait()
        return held

    async def use() -> None:
        async with open_database(DatabaseChoice(DatabaseUrl.parse(f"embedded://{short_directory}"), "in a test")):
            raise AssertionError("cancelled before")

    monkeypatch.setattr("horsies.store.connect.acquire", slow)
    using = asyncio.create_task(use())
    await asyncio.to_thread(has_it.wait)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    may_return.set()
    with FileLock(place.users_lock) as users:
        assert await asyncio.to_thread(users.exclusive_within, 10)


def test_debug_shows_the_traceback(environ: dict[str, str]) -> None:
    for words in (["--debug", "db", "status"], ["db", "status", "--debug"]):
        done = run({**environ, "DATABASE_URL": "mysql://u:hunter2@h/d"}, *words)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "hunter2" not in done.stderr


def test_colour_is_for_terminals_and_for_those_who_force_it(environ: dict[str, str]) -> None:
    environ["DATABASE_URL"] = "mysql://h/d"
    assert "\x1b[" not in fails(environ, "db", "status")
    assert "\x1b[" in fails({**environ, "HORSIES_FORCE_COLOR": "1"}, "db", "status")


def test_a_dumb_terminal_gets_no_colour(environ: dict[str, str]) -> None:
    environ["DATABASE_URL"] = "mysql://h/d"
    for terminal, coloured in (("dumb", False), ("xterm", True)):
        ours, theirs = pty.openpty()
        run_command(["db", "status"], env={**environ, "TERM": terminal}, stderr=theirs)
        assert (b"\x1b[" in os.read(ours, 10_000)) is coloured
        os.close(ours)
        os.close(theirs)


def test_the_process_list_shows_no_password(environ: dict[str, str]) -> None:
    """The command waits here for a server that accepts the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        url = f"postgresql://ops:hunter2@127.0.0.1:{listener.getsockname()[1]}/app?connect_timeout=30"
        command = subprocess.Popen([HORSIES, "db", "status", f"--database-url={url}"], env=environ)
        try:
            connection, _ = listener.accept()
            shown = " ".join(psutil.Process(command.pid).cmdline())
            assert "hunter2" not in shown
            assert "ops:***@127.0.0.1" in shown
            connection.close()
        finally:
            command.kill()
            command.wait()


def test_a_server_that_never_answers_is_given_up_on(environ: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts, and nothing reads
        port = listener.getsockname()[1]
        said = fails(environ, "db", "status", "--database-url", f"postgresql://o@127.0.0.1:{port}/a?connect_timeout=1")
    assert f"127.0.0.1:{port} did not answer in 1 s" in said


def test_completion_offers_the_contexts(environ: dict[str, str]) -> None:
    write_config(environ, "[contexts.prod]\nurl = 'postgresql://h/d'\n[contexts.staging]\nurl = 'postgresql://h/e'\n")
    words = {"_HORSIES_COMPLETE": "complete_bash", "COMP_WORDS": "horsies db status --context ", "COMP_CWORD": "4"}
    offered = run({**environ, **words}).stdout.split()
    assert offered == ["prod", "staging"]


def test_completion_offers_the_verbs_and_their_own_options(environ: dict[str, str]) -> None:
    words = {"_HORSIES_COMPLETE": "complete_bash", "COMP_WORDS": "horsies tasks re", "COMP_CWORD": "2"}
    offered = run({**environ, **words}).stdout.split()
    assert offered == ["requeue", "retry-now", "release", "rerun", "reprioritise", "reschedule"]
    words = {"_HORSIES_COMPLETE": "complete_bash", "COMP_WORDS": "horsies tasks requeue --f", "COMP_CWORD": "3"}
    assert run({**environ, **words}).stdout.split() == ["--filter", "--fresh-budget", "--filter-help"]
