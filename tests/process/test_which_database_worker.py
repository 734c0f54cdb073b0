"""A worker, its children and commands on another database than the configured one, and without any."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_steps import horsies, said
from cli_terminal import Terminal
from forked_commands import Command, run_command
from test_worker import HERE, PATIENCE_S, Table, Worker

from horsies.config.contexts import DatabaseChoice
from horsies.store.connect import open_database

APP = "two_databases_app:app"
OWN = "postgresql://shop:hunter2@127.0.0.1:1/own"  # nothing answers there


async def test_what_a_task_sends_goes_to_the_database_of_its_worker(
    start: Callable[..., Worker], table: Table, database: str
) -> None:
    worker = start("--database-url", database, app=APP, OWN_URL=OWN, HORSIES_DATABASE_URL="")
    row = await table.done(await table.send("pass_on", 7))
    sent = await table.done(json.loads(row["result"])["ok"])
    assert (sent["task_name"], sent["status"], json.loads(sent["args"])) == ("receive", "COMPLETED", [7])
    told = worker.wait_for("one of two databases", level="WARNING")
    assert "given by --database-url" in told["used"]
    assert told["not_used"].startswith(
        "postgresql://shop:***@127.0.0.1:1/own (configured in the application two_databases_app:app"
    )


async def test_an_application_that_connects_when_it_is_imported_sends_where_its_worker_claims(
    start: Callable[..., Worker], table: Table, database: str, empty_database: str
) -> None:
    start("--database-url", database, app=APP, OWN_URL=empty_database, READS_AT_IMPORT="yes", HORSIES_DATABASE_URL="")
    row = await table.done(await table.send("pass_on", 7))
    assert (await table.done(json.loads(row["result"])["ok"]))["task_name"] == "receive"


async def test_a_scheduler_takes_the_environment_before_the_application(table: Table, database: str) -> None:
    process = Command(
        ["scheduler", APP],
        env={**os.environ, "OWN_URL": OWN, "HORSIES_DATABASE_URL": database},
        cwd=HERE,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        banner = [process.stdout.readline() for _ in range(5)]
        assert any("chosen     from the environment variable HORSIES_DATABASE_URL" in line for line in banner)
        assert any("not used   postgresql://shop:***@127.0.0.1:1/own" in line for line in banner)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of the user's files, and the application on the path; no database is configured elsewhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in ("HORSIES_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(HERE))
    return tmp_path


async def test_every_command_takes_the_database_of_the_application_that_is_named(
    files: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    path = files / "one_app.py"
    path.write_text(
        "from horsies import AppConfig, Horsies, PostgresConfig\n"
        "print('imported')\n"
        f"app = Horsies(AppConfig(broker=PostgresConfig(database_url={database!r})))\n"
    )
    locator = f"{path}:app"
    for words in (
        ["tasks", "ls"],
        ["workflows", "ls"],
        ["workers", "ls"],
        ["queues", "ls"],
        ["schedules", "ls"],
        ["recovery", "ls"],
        ["audit", "ls"],
        ["status"],
        ["db", "status"],
        ["doctor"],
        ["db", "prune", "--dry-run"],
        ["tasks", "requeue", "no-such-id", "--dry-run"],
    ):
        answer = await horsies(*words, "--json", "--module", locator)
        assert isinstance(answer.json, dict), words  # what the module prints is not part of it
        if words[1:2] == ["requeue"]:
            assert answer.json["command"] == f"horsies tasks requeue --module {locator} no-such-id"
    status = (await horsies("db", "status", "--json", "--module", locator)).json
    assert status["reason"] == f"configured in the application {locator}"
    monkeypatch.setenv("HORSIES_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/elsewhere")
    answer = await horsies("tasks", "ls", "-m", locator)
    assert answer.code == 1
    assert "note: this is about postgresql://u:***@127.0.0.1:1/elsewhere" in answer.err
    assert "not about postgresql://" in answer.err
    assert "hunter2" not in answer.words


async def test_the_guard_of_a_context_holds_for_an_application_on_the_same_database(
    files: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.setenv("OWN_URL", database)
    (files / "horsies").mkdir()
    config = files / "horsies" / "config.toml"
    config.write_text(f'[contexts.prod]\nurl = "{database}"\nproduction = true\n')
    answer = await horsies("db", "init", "-m", APP, answer="no\n")
    assert (answer.code, "nothing was changed: that is not the name" in answer.words) == (1, True)
    config.write_text(f'[contexts.prod]\nurl = "{database}"\nread_only = true\n')
    assert "context 'prod' is read-only" in (await horsies("tasks", "cancel", "7f3a", "-m", APP)).words
    refused = run_command(["worker", APP, "--context", "prod"], cwd=HERE, text=True)
    assert "context 'prod' is read-only, and a worker or a scheduler writes" in refused.stderr


def test_where_no_one_can_be_asked_it_names_the_places_and_the_ways_out(home: Path) -> None:
    for words in (
        ["tasks", "ls"],
        ["workflows", "ls"],
        ["workers", "ls"],
        ["recovery", "ls"],
        ["audit", "ls"],
        ["queues", "ls"],
        ["status"],
        ["db", "status"],
        ["tasks", "cancel", "7f3a"],
    ):
        answer = said(*words)
        assert answer.code == 1
        for part in (
            "no database is configured",
            "looked for: --database-url, --context, HORSIES_DATABASE_URL, --module, DATABASE_URL, default_context in",
            f"an embedded PostgreSQL in {home}/postgres",
            "name the application, whose database it then is: --module shop.tasks:app",
            "Where there is neither yet, `horsies db init` makes the embedded one",
        ):
            assert part in answer.words, (words, part)
    answer = said("tui")
    assert (answer.code, "needs a terminal" in answer.words) == (1, True)
    assert not (home / "postgres").exists()


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short_directory: Path) -> Path:
    """The home directory of a user without configuration."""
    for variable in ("HORSIES_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HORSIES_HOME", str(short_directory))
    return short_directory


def test_on_a_terminal_it_offers_to_make_one_which_is_then_used_without_a_question(home: Path) -> None:
    with Terminal(dict(os.environ), "tasks", "ls", columns=200) as terminal:
        terminal.until(f"Make an embedded PostgreSQL in {home}/postgres")
        assert "looked for: --database-url" in terminal.text
        terminal.type("\n")
        assert terminal.end() == 1
    assert not (home / "postgres").exists()
    with Terminal(dict(os.environ), "tasks", "ls", columns=200) as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        terminal.until("no task has been sent to this database yet")
        assert terminal.end() == 0
    assert (home / "postgres" / "data").is_dir()
    again = said("tasks", "ls")
    assert (again.code, "no task has been sent" in again.words) == (0, True)


@pytest.mark.chaos  # a second of processor time
async def test_what_is_about_to_be_written_to_is_made_as_ever(home: Path) -> None:
    async with open_database(DatabaseChoice(None, "as a worker without a URL does")) as database:
        assert database.embedded is not None
        assert database.embedded.place.root == (home / "postgres").resolve()
