"""Without a configured database: lists and the console report where they looked, and create none unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_steps import said
from cli_terminal import Terminal

from horsies.config.contexts import DatabaseChoice
from horsies.store.connect import open_database

LISTS = (
    ["tasks", "ls"],
    ["workflows", "ls"],
    ["workers", "ls"],
    ["recovery", "ls"],
    ["audit", "ls"],
    ["queues", "ls"],
    ["status"],
    ["db", "status"],
    ["tasks", "cancel", "7f3a"],
)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short_directory: Path) -> Path:
    """The home directory of a user without configuration."""
    for variable in ("HORSIES_DATABASE_URL", "DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HORSIES_HOME", str(short_directory))
    return short_directory


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_where_no_one_can_be_asked_it_names_the_places_and_the_ways_out(home: Path, words: list[str]) -> None:
    answer = said(*words)
    assert answer.code == 1
    for part in (
        "no database is configured",
        "looked for: --database-url, --context, HORSIES_DATABASE_URL, --module, DATABASE_URL, default_context in",
        f"an embedded PostgreSQL in {home}/postgres",
        "name the application, whose database it then is: --module shop.tasks:app",
        "Where there is neither yet, `horsies db init` makes the embedded one",
    ):
        assert part in answer.words, part
    assert not (home / "postgres").exists()


def test_the_console_asks_for_a_terminal_first(home: Path) -> None:
    answer = said("tui")
    assert answer.code == 1
    assert "needs a terminal" in answer.words
    assert not (home / "postgres").exists()


def test_on_a_terminal_it_offers_to_make_one_and_takes_no_for_an_answer(home: Path) -> None:
    with Terminal(dict(os.environ), "tasks", "ls", columns=200) as terminal:
        terminal.until(f"Make an embedded PostgreSQL in {home}/postgres")
        assert "looked for: --database-url" in terminal.text
        terminal.type("\n")
        assert terminal.end() == 1
    assert not (home / "postgres").exists()


def test_a_yes_makes_it_and_from_then_on_it_is_used_without_a_question(home: Path) -> None:
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
