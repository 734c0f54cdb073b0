"""The command line of the whole console: screens, verbs with their previews, ids, filters, exports and programs."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from pathlib import Path
from threading import get_ident

import asyncpg
import pytest
from feed_steps import send
from flow_steps import month_end
from task_rows import fill
from task_screen_steps import failed
from task_steps import Screen
from verb_steps import until

from horsies.config.contexts import DatabaseChoice, read_config_file
from horsies.config.url import DatabaseUrl
from horsies_tui import saved_filters
from horsies_tui.actions import live_actions
from horsies_tui.command.history import CommandHistory
from horsies_tui.command.line import CommandLine
from horsies_tui.settings import ConsoleOptions, ConsoleSettings
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.preview_sheet import PreviewSheet
from horsies_tui.widgets.typed_line import TypedInput

ONE = "019a7c2e-9999-7000-8000-0000feedf00d"


class Commanded(Screen):
    async def command(self, text: str) -> None:
        await self.press("colon")
        await until(self.pilot, lambda: isinstance(self.app.focused, TypedInput), "opened")
        self.app.query_one("#command-text", TypedInput).value = text
        await self.press("end", "enter")

    @property
    def sheet(self) -> PreviewSheet | None:
        return self.app.screen if isinstance(self.app.screen, PreviewSheet) else None

    async def previews(self, *words: str) -> None:
        """A preview with these words is shown, and closed again."""
        await until(self.pilot, lambda: self.sheet is not None, f"previews {words}")
        await self.sees(*words)
        await self.press("escape")
        await until(self.pilot, lambda: self.sheet is None, "closed")


@asynccontextmanager
async def console(url: str, tmp_path: Path, **options: object) -> AsyncIterator[Commanded]:
    path = tmp_path / "config.toml"
    if not path.exists():
        path.write_text('# mine\n[filters]\nstuck = "status:running run:>10m"\n')
    choice = DatabaseChoice(DatabaseUrl.parse(url), "for the test")
    app = ConsoleApp(
        ConsoleOptions(
            choice, read_config_file(path), ConsoleSettings.of(read_config_file(path)), **{"screen": "tasks", **options}
        )
    )  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        yield Commanded(pilot)


@pytest.fixture(autouse=True)
async def shop(connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await fill(connection, 300)
    await month_end(connection)


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that write the history and the config file."""
    threads: set[int] = set()

    def noted(write: Callable[..., None]) -> Callable[..., None]:
        def here(*given: object) -> None:
            threads.add(get_ident())
            write(*given)

        return here

    monkeypatch.setattr(CommandHistory, "append", noted(CommandHistory.append))
    monkeypatch.setattr(saved_filters, "save_filter", noted(saved_filters.save_filter))
    monkeypatch.setattr(saved_filters, "forget_filter", noted(saved_filters.forget_filter))
    return threads


async def test_commands_do_what_keys_do_and_never_more(
    database: str, connection: asyncpg.Connection, tmp_path: Path, writers: set[int]
) -> None:
    await failed(connection, ONE)
    before = await connection.fetchval("SELECT md5(string_agg(t::text, '' ORDER BY id)) FROM horsies_tasks t")
    async with console(database, tmp_path) as screen:
        await screen.sees("LIVE", "FOLLOW")
        await _screens_and_filters(screen)
        await _verbs(screen)
        await _wrong_lines_and_history(screen)
        await _saved_filters(screen, tmp_path)
    assert await connection.fetchval("SELECT md5(string_agg(t::text, '' ORDER BY id)) FROM horsies_tasks t") == before
    history = (tmp_path / "state" / "horsies" / "console-history").read_text()
    assert "tasks status:failed queue:mail" in history
    assert "hunter2" not in history
    assert writers
    assert get_ident() not in writers, "a home directory may not answer"


async def _screens_and_filters(screen: Commanded) -> None:
    await screen.command("tasks status:failed queue:mail")
    await screen.sees("/ status:failed queue:mail", "match")
    await screen.command("workflows name:month*")
    await screen.sees("/ name:month*", "month_end")
    await screen.command("overview")
    await until(screen.pilot, lambda: screen.app.stage.name_shown == "overview", "the overview")
    await screen.command(f"go {ONE[-8:]}")
    await screen.sees("CARD_DECLINED", "arguments")
    await screen.command("theme horsies-light")
    await until(screen.pilot, lambda: screen.app.theme == "horsies-light", "the theme")
    await screen.command("theme horsies-lite")
    await screen.sees("no theme `horsies-lite`; did you mean horsies-light?")
    await screen.command("go no-such-id")
    await screen.sees("no task, workflow or worker has an id that begins or ends with no-such-id")


async def _verbs(screen: Commanded) -> None:
    await screen.command("requeue --fresh-budget --reason 'hunter2 said so'")  # the task that is open
    await screen.previews("Requeue 1 task", "--fresh-budget", "hunter2 said so")
    await screen.command("tasks")
    await screen.sees("FOLLOW")
    await screen.command(f"requeue {ONE[-8:]}")
    await screen.previews("Requeue 1 task", ONE)
    await screen.command("fail --filter 'status:running'")
    await screen.previews("will be failed", "filter", "status:running")
    await screen.command("queues pause mail")
    await screen.previews("Pause 1 queue", "mail")
    await screen.command("pause mail")
    await screen.sees("pause is ambiguous here", "`queues pause …`")
    await screen.command("drain")
    await screen.sees("nothing to drain on this screen; write `workers drain …`")
    await screen.command("undo")
    await screen.sees("nothing to undo")


async def test_a_time_of_day_in_a_filter_is_in_the_zone_of_the_screen_for_verbs_too(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In UTC these times are of another hour of the day, in which no task was sent."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        await connection.execute("DELETE FROM horsies_tasks")
        now = await connection.fetchval("SELECT date_trunc('minute', now())")
        await send(connection, "sent-then", age_s=3 * 3600, status="'FAILED'", failed_at="now()")
        await send(connection, "sent-now", status="'FAILED'", failed_at="now()")
        begin, end = ((now - timedelta(minutes=each)).astimezone() for each in (200, 160))
        times = f"since:{begin:%H:%M} until:{end:%H:%M}"
        meant = f"since:{begin.isoformat()} until:{end.isoformat()}"
        assert "+05:30" in meant
        async with console(database, tmp_path) as screen:
            await screen.press("u")
            await screen.sees("times in this machine's zone", "sent-now")
            await screen.command(f'requeue --filter "{times}"')
            await screen.previews("Requeue 1 task", "sent-then", meant)
            await screen.command(f'tasks fail --filter "{times}"')
            await screen.previews("Fail 1 task", "it is already FAILED", meant)
            await screen.command(f"tasks {times}")
            await screen.sees(f"/ {meant}", "1 match", "sent-then")
            # The other zone is for what is typed from now on.
            await screen.press("u")
            await screen.sees("times in UTC", f"/ {meant}", "sent-then")
            await screen.command(
                f'requeue --filter "since:{begin.astimezone(UTC):%H:%M} until:{end.astimezone(UTC):%H:%M}"'
            )
            await screen.previews("Requeue 1 task", "sent-then", f"{begin.astimezone(UTC):%Y-%m-%dT%H:%M}:00Z")
    finally:
        monkeypatch.undo()
        time.tzset()


async def _wrong_lines_and_history(screen: Commanded) -> None:
    await screen.press("colon", *"reque")
    await screen.sees("requeue")
    await screen.press("enter")
    await screen.sees("`reque` is not a command; did you mean requeue?", "tab inserts it")
    await screen.press("tab", "escape")
    await until(screen.pilot, lambda: not screen.app.query_one(CommandLine).display, "left")
    await screen.press("colon", "up")
    assert screen.app.query_one("#command-text", TypedInput).value == "undo"
    await screen.press("up", "up", "down")
    assert screen.app.query_one("#command-text", TypedInput).value == "drain"
    await screen.press("escape", "j")
    assert screen.cursor


async def _saved_filters(screen: Commanded, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    await screen.command("filter stuck")
    await screen.sees("/ status:running run:>10m")
    await screen.command("filter stukc")
    await screen.sees("no saved filter `stukc`; did you mean stuck?")
    await screen.command("tasks queue:bulk")
    await screen.sees("/ queue:bulk")
    await screen.press("ctrl+s", *"bulky", "enter")
    await screen.sees("saved: `:filter bulky` shows it again")
    assert ConsoleSettings.of(read_config_file(path)).filters == {
        "stuck": "status:running run:>10m",
        "bulky": "queue:bulk",
    }
    assert path.read_text().startswith("# mine\n")
    await screen.command("save bulky")
    await screen.sees("there is a filter bulky already")
    await screen.press("slash", "ctrl+u")
    await screen.sees("bulky", "stuck")  # offered by name
    await screen.press("escape")
    await screen.command("workflows name:month*")
    await screen.sees("/ name:month*")
    await screen.command("save month")
    await screen.sees("saved: `:filter month`")
    await screen.command("overview")
    await screen.command("filter month")
    await screen.sees("/ name:month*", "month_end")
    await screen.command("unsave bulky")
    await screen.sees("removed bulky")
    assert ConsoleSettings.of(read_config_file(path)).filters == {"stuck": "status:running run:>10m"}


async def test_all_rows_of_the_filter_are_exported_and_no_file_is_overwritten(database: str, tmp_path: Path) -> None:
    async with console(database, tmp_path, filter="status:completed") as screen:
        await screen.sees("match")
        total = screen.view._snapshot.counts.total.number
        assert total > 200
        await screen.command("export csv done.csv")
        await screen.sees(f"{total} tasks in done.csv")
        rows = list(csv.DictReader((tmp_path / "done.csv").read_text().splitlines()))
        assert len(rows) == total
        assert {row["status"] for row in rows} == {"COMPLETED"}
        assert (tmp_path / "done.csv").stat().st_mode & 0o777 == 0o600
        await screen.command("export csv done.csv")
        await screen.sees("done.csv exists; choose another name")
        await screen.command("export jsonl no/such/place.jsonl")
        await screen.sees("cannot write no/such/place.jsonl: No such file")
        await screen.command("workflows")
        await screen.sees("month_end")
        await screen.command("export jsonl flows.jsonl")
        await screen.sees("in flows.jsonl")
        flows = [json.loads(line) for line in (tmp_path / "flows.jsonl").read_text().splitlines()]
        assert "month_end" in {flow["name"] for flow in flows}
        await screen.command("recovery")
        await screen.command("export csv x.csv")
        await screen.sees("nothing to export on this screen")
    assert [name for name in os.listdir(tmp_path) if name.endswith(".part")] == []  # noqa: PTH208 - not in a loop


@pytest.mark.chaos  # two seconds of processor time
async def test_escape_stops_an_export_and_a_click_on_a_title_sorts(
    database: str, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    async with console(database, tmp_path, screen="workflows") as screen:
        await screen.sees("month_end")
        await _titles_sort(screen)
        async with connection.transaction():
            await connection.execute("LOCK TABLE horsies_workflows IN ACCESS EXCLUSIVE MODE")
            await screen.press("ctrl+e", *"slow.csv", "enter")
            await screen.sees("exporting to slow.csv", "esc stops")
            await screen.command("export csv other.csv")
            await screen.sees("an export is already running; esc stops it")
            await screen.press("escape")
            await screen.sees("export stopped after 0 rows; no file was written")
        assert sorted(os.listdir(tmp_path)) == ["config.toml", "state"]  # noqa: PTH208
        await _palette_elsewhere(screen)


async def _titles_sort(screen: Commanded) -> None:
    async def click(title: str) -> None:
        line = next(number for number, text in enumerate(screen.text.splitlines()) if "STATE" in text)
        await screen.pilot.click(offset=(screen.text.splitlines()[line].index(title), line))

    await click("AGE")
    await screen.sees("oldest first")
    await click("DURATION")
    await screen.sees("longest open")
    await click("PROGRESS")
    await screen.sees("cannot sort by PROGRESS; available: AGE, DURATION, STATE")
    await screen.press("s", "e")
    await screen.sees("ended last")
    await screen.press("s", "n", "c")
    await screen.sees("Columns", "PROGRESS")
    await screen.press("escape")
    await screen.press("3")
    await screen.sees("BUSY", "SEEN")
    await click("CPU")
    await screen.sees("most cpu first")
    await screen.press("2")
    await screen.sees("FOLLOW", "AGE")
    await click("RUN ")
    await screen.sees("longest running")
    await click("AGE")
    await screen.sees("FOLLOW")
    await screen.press("4")
    await screen.sees("month_end")


async def _palette_elsewhere(screen: Commanded) -> None:
    await screen.press("ctrl+p", *"workers: hosts")
    await screen.sees("Workers: hosts")
    await screen.press("enter")
    await until(screen.pilot, lambda: screen.app.stage.name_shown == "workers", "the workers")
    await screen.sees("HOST", "DRAINING")
    await screen.press("ctrl+p", *"schedules: pause")
    await screen.sees("Schedules: pause")
    await screen.press("enter")
    await screen.sees("select rows, then P")
    assert screen.sheet is None


async def test_a_console_in_a_browser_opens_no_programs_and_writes_no_files(
    database: str, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await failed(connection, ONE)
    async with console(database, tmp_path, task_id=ONE) as screen:
        with monkeypatch.context() as browser:
            browser.setattr(ConsoleApp, "is_web", property(lambda _app: True))
            await screen.sees("CARD_DECLINED", "arguments")
            assert "detail.editor" not in {action.id for action, _ in live_actions(screen.app.screen)}
            await screen.command("editor arguments")
            await screen.sees("programs cannot be opened from a browser")
            await screen.press("2")
            await screen.sees("FOLLOW")
            await screen.command("export csv all.csv")
            await screen.sees("the file would be on the server")
        await screen.command("editor arguments")
        await screen.sees("open a task first")
        await screen.command(f"go {ONE}")
        await screen.sees("CARD_DECLINED", "arguments")
        assert "detail.editor" in {action.id for action, _ in live_actions(screen.app.screen)}
