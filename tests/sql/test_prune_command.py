"""`horsies db prune` counts before it deletes, asks for confirmation, and takes ages as users write them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
from click.testing import Result
from database_server import as_written
from typer.testing import CliRunner
from view_steps import snapshot

from horsies.cli.db import prune
from horsies.domain.errors import ConfigurationError
from horsies.store.schema import SchemaError

Command = Callable[..., Result]

ALL = {"heartbeats": 48, "tasks": 1, "operator_actions": 1}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    app = typer.Typer()
    app.command()(prune)
    return lambda *words, **given: CliRunner().invoke(app, list(words), **given)


@pytest.fixture
async def filled(database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch) -> str:
    """Heartbeats of every hour of the last three days, a task that ended 40 days ago, an action of 500 days ago."""
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    await connection.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT 't', 'w', 'runner', now() - (72.5 - n) * interval '1 h' FROM generate_series(1, 72) n"
    )
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at)"
        " VALUES ('t', 'demo.add', 'default', 'COMPLETED', now() - interval '40 days')"
    )
    await connection.execute(
        as_written(
            "INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome)"
            " VALUES (now() - interval '500 days', gen_random_uuid(), 'cancel', 'task', 't', 'applied')"
        )
    )
    return database


async def tell_settings(conn: asyncpg.Connection, **settings: Any) -> None:
    await snapshot(conn, "web-1", recovery_config=f"'{json.dumps(settings)}'")


def rows(result: Result) -> dict[str, int]:
    assert result.exit_code == 0, result.output
    counted: dict[str, int] = json.loads(result.stdout)["rows"]
    return {table: number for table, number in counted.items() if number}


def test_a_dry_run_counts_and_leaves_everything(command: Command, filled: str) -> None:
    for _ in range(2):
        assert rows(command("--dry-run", "--json")) == ALL
    assert rows(command("--json")) == ALL
    assert rows(command("--json")) == {}


def test_people_read_what_is_kept_and_what_goes(command: Command, filled: str) -> None:
    said = command("--dry-run").stdout.splitlines()
    assert (
        "heartbeats 1 d, worker-states 7 d, terminal-records 30 d, operator-actions 365 d (defaults, then --older-than)"
        in said[0]
    )
    assert said[1].split() == ["heartbeats", "48", "would", "be", "deleted"]
    assert command().stdout.splitlines()[1].split() == ["heartbeats", "48", "deleted"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["heartbeats=12h"], ALL | {"heartbeats": 60}),
        (["heartbeats=2d", "terminal-records=never"], {"heartbeats": 24, "operator_actions": 1}),
        (["heartbeats=never", "terminal-records=8w", "operator-actions=501d"], {}),
        (["operator-actions=never"], {"heartbeats": 48, "tasks": 1}),
        (["heartbeats=0.5d"], ALL | {"heartbeats": 60}),
        (["heartbeats=45m"], ALL | {"heartbeats": 71}),
    ],
    ids=str,
)
def test_an_age_of_ones_own_counts_for_its_category(
    command: Command, filled: str, given: list[str], expected: dict[str, int]
) -> None:
    words = [word for age in given for word in ("--older-than", age)]
    assert rows(command("--dry-run", "--json", *words)) == expected


async def test_without_an_age_the_settings_of_the_newest_worker_count(
    command: Command, filled: str, connection: asyncpg.Connection
) -> None:
    """Records that the application keeps for ever must not be deleted by a short command."""
    await tell_settings(
        connection,
        terminal_record_retention_hours=None,
        heartbeat_retention_hours=48,
        operator_action_retention_hours=24,
    )
    report = json.loads(await in_thread(command, "--dry-run", "--json"))
    assert report["settings_from"] == "web-1"
    expected = {"heartbeats": 172_800, "worker_states": 604_800, "terminal_records": None, "operator_actions": 86_400}
    assert report["older_than_s"] == expected
    assert report["rows"]["heartbeats"] == 24
    assert "tasks" not in report["rows"]


@pytest.mark.parametrize("told", ["null", "[1]", '{"heartbeat_retention_hours": "12", "check_interval_ms": null}'])
async def test_settings_that_cannot_be_used_are_the_defaults(
    command: Command, filled: str, connection: asyncpg.Connection, told: str
) -> None:
    await tell_settings(connection)
    await connection.execute("UPDATE horsies_worker_states SET recovery_config = $1", told)
    report = json.loads(await in_thread(command, "--dry-run", "--json"))
    assert report["older_than_s"] == {
        "heartbeats": 86_400,
        "worker_states": 604_800,
        "terminal_records": 2_592_000,
        "operator_actions": 31_536_000,
    }


async def in_thread(command: Command, *words: str) -> str:
    """In a thread, because the command creates its own event loop."""
    result = await asyncio.to_thread(command, *words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("heartbeat=1d", "choose one of heartbeats, worker-states, terminal-records, operator-actions"),
        ("heartbeats", "write for example heartbeats=12h"),
        ("heartbeats=1 day", "'1 day' is not an age"),
        ("heartbeats=-1h", "'-1h' is not an age"),
    ],
)
def test_an_age_that_is_none_is_refused_with_what_would_be_one(
    command: Command, filled: str, given: str, said: str
) -> None:
    refused = command("--older-than", given)
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.replace("│", " ").split())


async def test_what_could_not_be_deleted_is_told_and_is_a_failure(
    command: Command, filled: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE TABLE orders (task_id varchar(36) REFERENCES horsies_tasks (id))")
    await connection.execute("INSERT INTO orders VALUES ('t')")
    result = await asyncio.to_thread(command)
    assert result.exit_code == 1
    assert "not deleted: tasks t: ForeignKeyViolationError" in result.stdout
    assert await connection.fetchval("SELECT count(*) FROM horsies_heartbeats") == 24


def write_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "horsies").mkdir()
    (tmp_path / "horsies" / "config.toml").write_text(text)


def test_a_production_context_wants_its_name_typed(command: Command, filled: str, tmp_path: Path) -> None:
    write_config(tmp_path, f'[contexts.prod]\nurl = "{filled}"\nproduction = true\n')
    refused = command("--context", "prod", input="y\n")
    assert isinstance(refused.exception, ConfigurationError)
    assert rows(command("--context", "prod", "--dry-run", "--json")) == ALL
    assert command("--context", "prod", input="prod\n").exit_code == 0
    assert rows(command("--context", "prod", "--yes", "--json")) == {}


def test_a_database_without_our_tables_is_refused(
    command: Command, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", empty_database)
    for words in ([], ["--dry-run"]):
        refused = command(*words)
        assert isinstance(refused.exception, SchemaError)
        assert "horsies db init" in str(refused.exception.help_text)


async def test_a_session_that_may_only_read_counts_and_deletes_nothing(
    command: Command, filled: str, connection: asyncpg.Connection
) -> None:
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    refused = await asyncio.to_thread(command)
    assert isinstance(refused.exception, SchemaError)
    assert json.loads(await in_thread(command, "--dry-run", "--json"))["rows"]["heartbeats"] == 48
