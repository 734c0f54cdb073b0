"""The story beside or below a list: when it is read, what it shows, and that the list keeps its keys and verbs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from flow_steps import month_end
from task_rows import fill
from task_screen_steps import ONE, failed, opened
from task_steps import Screen, console
from textual import events
from verb_steps import until

from horsies.views import task_detail
from horsies_tui.recovery.view import RecoveryView
from horsies_tui.story import beside
from horsies_tui.story.beside import StoryPane, WithStory
from horsies_tui.story.view import StoryHead, StoryView
from horsies_tui.task import feed as task_feed
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workflows.view import WorkflowsView

WIDE = (200, 60)
COUNT = 40


class Side(Screen):
    """The console with a list and, where there is room, the story of its row."""

    @property
    def list(self) -> WithStory[Any]:
        top = self.app.stage.top
        assert isinstance(top, WithStory)
        return top

    @property
    def pane(self) -> StoryPane:
        return self.list.query_one(StoryPane)

    @property
    def row(self) -> str:
        """The id of the row under the list's cursor."""
        return self.list.query_one(RowTable).cursor_id or ""

    @property
    def told(self) -> str:
        """The first lines of the story."""
        found = self.pane.query(StoryHead)
        return "\n".join("".join(piece.text for piece in line) for head in found for line in head._lines)

    @property
    def story(self) -> StoryView:
        return self.pane.query_one(StoryView)

    async def reads(self) -> None:
        """Wait until the story is that of the row."""
        await until(self.pilot, lambda: self.row != "" and self.row in self.told, f"tells of {self.row}")

    async def resize(self, columns: int, rows: int) -> None:
        await self.pilot.resize_terminal(columns, rows)
        await self.pilot.pause()


@asynccontextmanager
async def side(url: str, size: tuple[int, int] = WIDE, **options: Any) -> AsyncIterator[Side]:
    async with console(url, size, **options) as screen:
        side = Side(screen.pilot)
        await side.sees("LIVE")
        yield side


class Reads:
    """The reads of stories; a read whose task is in `held` waits for `go` before it answers."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.under_way = self.most = 0
        self.held = ""
        self.go = asyncio.Event()

    async def detail(self, conn: Any, text: str, **options: Any) -> Any:
        self.ids.append(text)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            found = await task_detail(conn, text, **options)
            if text == self.held:
                await self.go.wait()
            return found
        finally:
            self.under_way -= 1


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counted = Reads()
    monkeypatch.setattr(task_feed, "task_detail", counted.detail)
    return counted


async def test_walking_down_the_list_is_reading_and_the_list_keeps_focus_and_verbs(
    database: str, connection: asyncpg.Connection
) -> None:
    await fill(connection, COUNT)
    async with side(database) as screen:
        await screen.reads()
        for _ in range(2):
            await screen.press("j")
            await screen.reads()
            assert isinstance(screen.app.focused, RowTable)
            assert "timeline" in screen.text
            assert "arguments" in screen.text
        first = screen.row
        # The verb is for the row, also before its story has been read.
        await screen.press("j")
        chosen = screen.list.selection()
        assert chosen is not None
        assert chosen.ids == (screen.row,) != (first,)
        await screen.reads()
        # `tab` goes into the story, where verbs are still for the row; `esc` comes back.
        await screen.press("tab")
        assert screen.app.focused is screen.story
        await screen.press("tab", "R")
        await screen.sees("Requeue", screen.row[-8:])
        await screen.press("escape")
        await screen.press("right_square_bracket")
        await screen.reads()
        await screen.press("escape")
        assert isinstance(screen.app.focused, RowTable)
        # `v` gives the list its room back, and the story again.
        width = screen.list.query_one(RowTable).size.width
        await screen.press("v")
        await until(screen.pilot, lambda: screen.list.query_one(RowTable).size.width > 1.9 * width, "the list alone")
        assert "timeline" not in screen.text
        await screen.press("j", "v")
        await screen.reads()
        # The choice holds on the other screens.
        await screen.press("v", "5")
        await until(screen.pilot, lambda: isinstance(screen.app.stage.top, RecoveryView), "recovery")
        assert not screen.pane.display
        await screen.press("v", "2", "enter")
        await until(screen.pilot, lambda: screen.app.stage.top.id == "detail", "its own screen")


async def test_a_key_that_is_held_reads_nothing_until_the_cursor_rests(
    database: str, connection: asyncpg.Connection, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of rest is made longer, so that slow keys of a busy machine are not taken for a rest."""
    await fill(connection, COUNT)
    async with side(database) as screen:
        await screen.reads()
        before = screen.told
        monkeypatch.setattr(beside, "REST_S", 3.0)
        reads.ids.clear()
        await screen.press(*"jjjjjjjjjjjj")
        assert reads.ids == []
        assert screen.told == before
        await screen.reads()
        assert set(reads.ids) == {screen.row}
        # A read under way when the cursor goes on: its answer is dropped, and the next read waits for its end.
        monkeypatch.setattr(beside, "REST_S", 0.05)
        table = screen.list.query_one(RowTable)
        reads.held = stale = table.rows[table.cursor_index + 1].id
        await screen.press("j")
        await until(screen.pilot, lambda: reads.under_way == 1, "the read")
        await screen.press("j", "j")
        await screen.pilot.pause(0.15)
        assert stale not in screen.told
        reads.go.set()
        seen = []
        await until(screen.pilot, lambda: seen.append(screen.told) or screen.row in screen.told, "the row's story")
        assert not any(stale in told for told in seen)
        assert reads.most == 1


async def test_the_story_goes_when_its_row_is_pruned_and_stands_still_while_frozen(
    database: str, connection: asyncpg.Connection
) -> None:
    await fill(connection, COUNT)
    await failed(connection, sent_at="now()", created_at="now()", enqueued_at="now()")
    async with side(database) as screen:
        await until(screen.pilot, lambda: screen.row == ONE, "the newest row")
        await screen.sees(ONE, "traceback", "api_token")
        # The wheel and shift with an arrow scroll the story, not the list.
        top = screen.story._top
        await screen.resize(200, 24)
        await screen.press("shift+down")
        assert screen.story._top > top
        assert screen.row == ONE
        await screen.press("shift+up")
        assert screen.story._top == top
        screen.story.post_message(_wheel(screen.story))
        await until(screen.pilot, lambda: screen.story._top == top + 3, "the wheel")
        await screen.press("p")
        await screen.sees("FROZEN")
        await connection.execute("UPDATE horsies_tasks SET queue_name = 'elsewhere', updated_at = now()")
        await screen.pilot.pause(0.6)
        assert "elsewhere" not in screen.text
        await screen.press("p")
        await screen.sees("queue elsewhere")
        await connection.execute("DELETE FROM horsies_tasks WHERE id = $1", ONE)
        await screen.press("ctrl+r")
        await screen.sees(f"Task {ONE} was deleted")
        await screen.filter("name:nothing_like_it")
        await screen.loses("was deleted")
        assert "timeline" not in screen.text


async def test_a_wide_list_shows_arguments_masked_and_of_long_ones_the_size(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, kwargs, created_at) VALUES"
        " ('a-1', 'shop.short', 'mail', '[7]', $1, now()), ('a-2', 'shop.long', 'mail', NULL, $2, now()),"
        " ('a-3', 'shop.broken', 'mail', NULL, '{\"api_token\": \"hunter2', now())",
        '{"order": 5, "card": {"api_token": "hunter2"}}',
        '{"api_token": "hunter2", "text": "' + "x" * 5_000 + '"}',
    )
    async with opened(database, None, (250, 30), screen="tasks") as screen:
        await screen.sees("a-1", "LIVE")
        assert "ARGUMENTS" not in screen.text
        await screen.press("v")
        text = await screen.sees('7, order=5, card={api_token: "***"}', "5.0 kB")
        assert "hunter2" not in text
        # The story leaves the list no room for them; the next row is read when there is room again.
        await screen.press("v")
        await screen.loses("order=5,")
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, args) VALUES ('a-4', 'shop.next', 'mail', '[\"n\"]')"
        )
        await screen.press("v")
        await screen.sees("shop.next", '"n"')


def _wheel(story: StoryView) -> events.MouseScrollDown:
    return events.MouseScrollDown(story, 1, 1, 0, 1, 0, False, False, False)


@pytest.mark.chaos  # two seconds of processor time
async def test_any_size_may_become_any_other_and_the_cursor_stays(
    database: str, connection: asyncpg.Connection
) -> None:
    await fill(connection, COUNT)
    await month_end(connection)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
        " SELECT 'i-' || n, 'shop.report_' || n, 'reports', 'FAILED', 'TASK_INTERRUPTED', now() - n * interval '71 min'"
        " FROM generate_series(1, 3) n"
    )
    sizes = {"2": [(159, 49), (160, 20), (80, 50)], "4": [(40, 12), (160, 30)], "5": [(100, 20), (80, 60), (170, 24)]}
    async with side(database, (200, 30)) as screen:
        for key, among in sizes.items():
            await screen.press(key)
            await until(screen.pilot, lambda: screen.pane.is_read and screen.told != "", "a story")
            await screen.press("j")
            row = screen.row
            for number, size in enumerate(among):
                if number % 2 == 0:
                    await screen.press("tab")  # the focus is in the story when the room for it goes
                await screen.resize(*size)
                shown = size[0] >= beside.WIDE or size[1] >= beside.HIGH
                await until(screen.pilot, lambda shown=shown: screen.pane.display is shown, f"{size}")
                assert screen.row == row
                assert shown or isinstance(screen.app.focused, RowTable)
                if shown:
                    await until(screen.pilot, lambda: screen.pane.is_read, "read")
                    assert (screen.pane.region.x == 0) is (size[0] < beside.WIDE)


async def test_the_graph_stands_beside_its_workflow_and_the_verbs_are_for_the_row(
    database: str, connection: asyncpg.Connection
) -> None:
    await month_end(connection)
    async with side(database, screen="workflows") as screen:
        await screen.sees("month_end", "on error")
        assert isinstance(screen.app.focused, RowTable)
        await screen.press("tab", "right")
        assert not isinstance(screen.app.focused, RowTable)
        await screen.press("C")
        await screen.sees("Cancel", screen.row)
        await screen.press("escape", "escape")
        assert isinstance(screen.app.focused, RowTable)
        assert isinstance(screen.app.stage.top, WorkflowsView)


async def test_a_finding_has_the_story_of_its_task_and_a_finding_about_no_task_has_none(
    database: str, connection: asyncpg.Connection
) -> None:
    await failed(connection, error_code="'TASK_INTERRUPTED'")
    await connection.execute(
        "INSERT INTO horsies_queue_state (queue_name, paused_at) VALUES ('news', now() - interval '1 min')"
    )
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('n-1', 'shop.news', 'news')"
    )
    async with side(database, screen="recovery") as screen:
        text = await screen.sees("interrupted", "why: ", "timeline", "traceback")
        assert ONE in text
        await screen.press("G")
        await screen.sees("why: paused queue")
        await screen.loses("traceback")
