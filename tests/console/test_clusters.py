"""The databases of the config file side by side, and the way from one to another."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from database_server import DatabaseServer
from frame_steps import NOWHERE, frame, lines
from textual.pilot import Pilot
from typer.testing import CliRunner
from verb_steps import until

from horsies.cli.main import app
from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.health import clusters
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.picker import Picker
from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.tasks.view import TasksView

SECRET = "pa55word"


@pytest.fixture
def other(server: DatabaseServer) -> Iterator[str]:
    with server.database() as url:
        yield url


@pytest.fixture
async def rows(database: str, other: str) -> AsyncIterator[asyncpg.Connection]:
    """Three tasks have waited for a minute in the first database and one in the other, where no worker is alive."""
    for url, count in ((database, 3), (other, 1)):
        connection = await asyncpg.connect(url)
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at, enqueued_at)"
            " SELECT 'task-' || n, 'shop.add', 'mail', now(), now() - interval '1 min' FROM generate_series(1, $1) n",
            count,
        )
        if url == other:
            yield connection
        await connection.close()


def wanted(here: str, other: str, *, down: str = NOWHERE, **settings: Any) -> ConsoleOptions:
    contexts = {
        "eu": Context("eu", DatabaseUrl.parse(here)),
        "us": Context("us", DatabaseUrl.parse(other), colour="red", production=True),
        "down": Context("down", DatabaseUrl.parse(down)),
    }
    choice = DatabaseChoice(contexts["eu"].url, "context 'eu', given by --context", contexts["eu"])
    settings.setdefault("screen", "tasks")
    return ConsoleOptions(choice, ConfigFile(Path("/nowhere/config.toml"), contexts, None), **settings)


def row(pilot: Pilot[int], name: str) -> str:
    """The line of a database in the list."""
    if not isinstance(pilot.app.screen, Picker):
        return ""
    return next((line for line in lines(pilot) if re.search(rf"│ [▌ ]  {name} ", line)), "")


def numbers(pilot: Pilot[int], name: str) -> list[int]:
    return [int(word) for word in row(pilot, name).split()[-6:-1] if word.isdecimal()]


@pytest.mark.usefixtures("rows")
async def test_each_database_is_listed_with_its_verdict_and_enter_goes_there_without_marks_or_filter(
    database: str, other: str
) -> None:
    down = NOWHERE.replace("ops@", f"ops:{SECRET}@")
    async with ConsoleApp(wanted(database, other, down=down, filter="queue:mail")).run_test(size=(140, 30)) as pilot:
        await until(pilot, lambda: "task-3" in "\n".join(frame(pilot)))
        await pilot.press("a")
        (first,) = pilot.app.query(TasksView)
        assert len(first._table.marks) == 3
        await pilot.press("at")
        await until(pilot, lambda: "no worker" in row(pilot, "eu").lower() and "no worker" in row(pilot, "us").lower())
        assert numbers(pilot, "eu") == [1, 0, 3, 0, 0], "alerts, workers, waiting, running, failed"
        assert "us PROD" in row(pilot, "us")
        await until(pilot, lambda: "cannot connect to 127.0.0.1:1" in row(pilot, "down"))
        assert SECRET not in "\n".join(lines(pilot))
        await pilot.press("down")
        await until(pilot, lambda: "Critical" in "\n".join(lines(pilot)[-12:]))
        await pilot.press("enter")
        await until(pilot, lambda: "us PROD" in frame(pilot)[0] and "LIVE" in frame(pilot)[0])
        (view,) = pilot.app.query(TasksView)
        assert view is not first
        await until(pilot, lambda: [task.id for task in view._table.rows] == ["task-1"])
        assert view._table.marks == frozenset()
        assert "/ filter, for example" in frame(pilot)[2]
        await pilot.press("C")
        await until(pilot, lambda: isinstance(pilot.app.screen, PreviewSheet))
        assert pilot.app.screen.query_one("#sheet").border_subtitle == "us · PRODUCTION"


async def test_the_list_goes_on_reading_and_stops_when_it_is_closed(
    database: str, other: str, rows: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "EVERY_S", 0.2)
    monkeypatch.setattr(clusters, "_LONGEST_PAUSE_S", 0.2)
    async with ConsoleApp(wanted(database, other)).run_test(size=(140, 30)) as pilot:
        await pilot.press("at")
        await until(pilot, lambda: numbers(pilot, "us")[2:3] == [1])
        await rows.execute("UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now()")
        await until(pilot, lambda: numbers(pilot, "us")[2:3] == [0])
        await pilot.press("escape")
        name = "horsies console clusters%"
        for _ in range(400):
            if not await rows.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1", name):
                break
            await pilot.pause(0.02)
        else:
            pytest.fail("a connection of the list is left")


async def test_a_server_that_never_answers_is_given_up_and_holds_up_no_other(
    database: str, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_LIMIT_S", 60.0)
    silent = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, and nothing reads
    port = silent.getsockname()[1]
    choices = wanted(database, empty_database, down=f"postgresql://ops@127.0.0.1:{port}/app?sslmode=disable")
    async with ConsoleApp(choices).run_test(size=(140, 30)) as pilot:
        await pilot.press("at")
        await until(pilot, lambda: "No worker yet" in row(pilot, "eu"))
        await until(pilot, lambda: "horsies db init" in row(pilot, "us"))
        assert "connecting" in row(pilot, "down")
        monkeypatch.setattr(clusters, "_LIMIT_S", 0.5)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "no answer within 0.5s" in row(pilot, "down"))
    silent.close()


@pytest.mark.usefixtures("rows")
async def test_the_first_page_of_several_contexts_opens_none_of_them(database: str, other: str) -> None:
    choices = wanted(database, other, clusters=("us", "eu"), screen="overview", filter="queue:mail")
    async with ConsoleApp(choices).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "3" in row(pilot, "eu").split() and "no worker" in row(pilot, "us").lower())
        assert row(pilot, "down") == ""
        assert pilot.app.link.status.last_data_at is None, "no database is open yet"
        assert pilot.app.attention.title == ""
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, Picker)
        await pilot.press("enter")
        await until(pilot, lambda: "us PROD" in frame(pilot)[0] and not isinstance(pilot.app.screen, Picker))
        assert pilot.app.stage.name_shown == "overview"
        assert pilot.app.options.filter == "queue:mail", "given for the first one, whichever that is"
        await pilot.press("at")
        await until(pilot, lambda: "down" in "\n".join(lines(pilot)))
        assert {state.id for state in pilot.app.screen._reads.states} == {"eu", "us", "down"}


async def test_an_embedded_database_is_not_started_by_the_list(database: str, short_directory: Path) -> None:
    choices = wanted(database, f"embedded://{short_directory}/asleep")
    async with ConsoleApp(choices).run_test(size=(140, 30)) as pilot:
        await pilot.press("at")
        await until(pilot, lambda: "the embedded server is not running; enter starts it" in row(pilot, "us"))
        assert not (short_directory / "asleep").exists()


def test_a_name_among_several_that_is_no_context_is_an_error_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "horsies" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[contexts.eu]\nurl = "{NOWHERE}"\n[contexts.us]\nurl = "{NOWHERE}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["tui", "--context", "eu, uk"])
    assert "there is no context 'uk'" in str(result.exception or result.output)
