"""A list whose cursor and marks stay on their rows, and its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

from rich.cells import cell_len
from table_app import COLUMNS, NOW, Row, TableApp, rows
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from horsies_tui.look import lines
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.units import age
from horsies_tui.widgets import row_table
from horsies_tui.widgets.row_table import RowTable


@asynccontextmanager
async def table(count: int = 100, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[TableApp, Pilot[None]]]:
    app = TableApp()
    async with app.run_test(size=size) as pilot:
        app.table.show(rows(count), now=NOW)
        await pilot.pause()
        app.told.clear()
        yield app, pilot


def moves(app: TableApp) -> list[tuple[str | None, int, bool, bool]]:
    found = [message for message in app.told if isinstance(message, RowTable.CursorMoved)]
    return [(each.row_id, each.index, each.at_top, each.by_hand) for each in found]


def edges(app: TableApp) -> list[str]:
    return [message.which for message in app.told if isinstance(message, RowTable.NearEdge)]


async def test_keys_and_the_wheel_move_the_cursor_and_tell_where_it_is():
    async with table() as (app, pilot):
        app.table.show(rows(100), now=NOW)
        await pilot.pause()
        assert app.told == [], "the same rows again say nothing"
        await pilot.press("j", "down", "k", "g")
        assert moves(app) == [
            ("id-0001", 1, False, True),
            ("id-0002", 2, False, True),
            ("id-0001", 1, False, True),
            ("id-0000", 0, True, True),
        ]
        assert all(message.control is app.table for message in app.told)
        await pilot._post_mouse_events([MouseScrollDown], app.table, button=0)
        assert moves(app)[-1] == ("id-0003", 3, False, True), "so that it is always in view"
        await pilot.press("g", "pagedown")
        assert app.table.cursor_index == 22
        await pilot.press("ctrl+d", "ctrl+u")
        assert app.table.cursor_index == 22
        await pilot.press("G")
        assert app.table.cursor_id == "id-0099"
        assert app.lines()[-1].startswith("▌  running")


async def test_where_the_row_under_the_cursor_goes_none_is_chosen_until_a_key():
    async with table() as (app, pilot):
        await pilot.press("j")
        app.table.show((*rows(1), *rows(98, first=2)), now=NOW)
        await pilot.pause()
        assert moves(app)[-1] == (None, 1, False, False)
        assert not any(line.startswith("▌") for line in app.lines())
        await pilot.press("space", "enter", "m")
        assert app.table.marks == frozenset()
        await pilot.press("j")
        assert app.table.cursor_id == "id-0002"


async def test_enter_and_a_double_click_open_and_a_click_beside_the_rows_does_nothing():
    async with table(count=4) as (app, pilot):
        await pilot.press("j", "enter")
        await pilot.click(app.table, offset=(10, 4), times=2)
        opened = [message.row_id for message in app.told if isinstance(message, RowTable.Opened)]
        assert opened == ["id-0001", "id-0003"]
        app.told.clear()
        await pilot.click(app.table, offset=(10, 0))
        await pilot.click(app.table, offset=(10, 12))
        assert moves(app) == []


async def test_marks_are_ids_and_stay_with_their_rows():
    async with table() as (app, pilot):
        await pilot.press("space", "j", "j", "m")
        assert app.table.marks == {"id-0000", "id-0001", "id-0002"}
        assert isinstance(app.told[-1], RowTable.MarksChanged)
        assert app.told[-1].marks == app.table.marks
        app.table.show((*rows(2, first=500), *rows(2)), now=NOW)
        await pilot.pause()
        assert [line[1:2] for line in app.lines()[1:5]] == [" ", " ", "●", "●"]
        assert "id-0002" in app.table.marks


async def test_rows_are_marked_one_by_one_all_or_from_outside_and_unmarked():
    async with table(count=30) as (app, pilot):
        await pilot.press("j", "m")
        assert app.table.marks == {"id-0001"}, "a range without a beginning is one row"
        await pilot.press("space")
        assert app.table.marks == frozenset()
        await pilot.press("a")
        assert len(app.table.marks) == 30
        await pilot.press("ctrl+backslash")
        assert app.table.marks == frozenset()
        app.told.clear()
        for _ in range(2):
            app.table.marks = frozenset({"id-0007"})
        await pilot.pause()
        told = [message.marks for message in app.told if isinstance(message, RowTable.MarksChanged)]
        assert told == [{"id-0007"}], "told once"


async def test_near_an_edge_more_rows_are_asked_for_and_again_only_by_hand():
    async with table(count=200) as (app, pilot):
        for _ in range(7):
            await pilot.press("pagedown")
        assert "end" in edges(app)
        app.told.clear()
        app.table.show(rows(400), now=NOW)
        await pilot.pause()
        assert edges(app) == []
    async with table(count=30) as (app, pilot):
        app.table.show(rows(30), now=NOW + timedelta(seconds=9))
        await pilot.pause()
        assert edges(app) == []
        await pilot.press("j")
        assert set(edges(app)) == {"start", "end"}


async def test_an_empty_list_says_why_and_keys_do_nothing():
    async with table(count=0) as (app, pilot):
        app.table.show((), now=NOW, empty="No task matches.\nesc clears the filter.")
        await pilot.press("j", "G", "space", "enter", "m", "a", "pagedown")
        assert app.lines()[1:3] == ["   No task matches.", "   esc clears the filter."]
        assert app.table.marks == frozenset()
        assert app.table.cursor_id is None


async def test_ages_that_are_updated_often_wait_while_rows_are_shown():
    """In a storm of changes rows are shown four times a second; eight ticks beside them were half of the work."""
    async with table(count=1) as (app, pilot):

        async def ages_after(seconds: int, *, often: bool) -> str:
            app.table.tick(NOW + timedelta(seconds=seconds), often=often)
            await pilot.pause()
            return app.lines()[1].split()[-1]

        app.table.show(rows(1), now=NOW)
        assert await ages_after(20, often=True) == "0s"
        assert await ages_after(30, often=True) == "30s"
        app.table.show(rows(1), now=NOW)
        assert await ages_after(40, often=False) == "40s"


async def test_only_rows_whose_cells_have_changed_are_made_anew(monkeypatch):
    made = []

    def cells_line(cells, *rest):
        made.append(cells[1].text)
        return lines.cells_line(cells, *rest)

    monkeypatch.setattr(row_table, "cells_line", cells_line)
    before = rows(5)
    async with table(count=0) as (app, pilot):
        app.table.show(before, now=NOW)
        await pilot.pause()
        assert len(set(made)) == 5
        made.clear()
        app.table.show((*before[:2], replace(before[2], name="another"), *before[3:]), now=NOW)
        assert made == [before[2].id]
        made.clear()
        await pilot.press("j")
        assert len(made) == 2, "the row that the cursor left, and the one to which it came"


async def test_ages_grow_with_the_databases_time_columns_can_be_left_out_and_what_matches_no_more_is_struck():
    async with table(count=3) as (app, pilot):
        app.table.tick(NOW + timedelta(seconds=30))
        await pilot.pause()
        assert [line.split()[-1] for line in app.lines()[1:4]] == ["30s", "37s", "44s"]
        app.table.show(rows(3), now=NOW, struck=frozenset({"id-0001"}))
        await pilot.pause()
        struck = [any(segment.style and segment.style.strike for segment in line) for line in app.segments()[1:4]]
        assert struck == [False, True, False]
        app.table.action_down()
        await pilot.pause()
        assert not any(segment.style and segment.style.strike for segment in app.segments()[2] if "▌" in segment.text)
        app.table.columns = COLUMNS.without(frozenset({"name"}))
        await pilot.pause()
        assert app.lines()[0].split()[:4] == ["STATE", "ID", "AGE", "ERROR"]


async def test_text_from_anywhere_is_harmless():
    async with table(count=1) as (app, pilot):
        app.table.show((replace(rows(1)[0], name="日本\x1b[2J\u202eevil\n", error="x" * 99),), now=NOW)
        await pilot.pause()
        line = app.lines()[1]
        assert line.startswith("▌  running    id-0000  日本 [2Jevil  ")
        assert line.endswith("  0s " + "x" * 30 + "…")
        assert cell_len(line) == 80


async def test_without_colours_the_cursor_is_reversed_and_what_is_muted_is_dim(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = TableApp("ansi")
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.show(rows(3), now=NOW)
        await pilot.pause()
        reverse = [{bool(segment.style and segment.style.reverse) for segment in line} for line in app.segments()[1:4]]
        assert reverse == [{True}, {False}, {False}]
        muted = [segment.style for segment in app.segments()[2] if "id-0001" in segment.text]
        assert [style and style.dim for style in muted] == [True]


async def test_marks_choose_their_rows_loaded_or_not_and_else_the_cursor_does():
    async with table() as (app, pilot):
        assert (app.table.chosen_ids, [row.id for row in app.table.chosen]) == (("id-0000",), ["id-0000"])
        await pilot.press("space", "j", "space")
        app.table.show(rows(1, first=1), now=NOW)
        assert app.table.chosen_ids == ("id-0000", "id-0001")
        assert [row.id for row in app.table.chosen] == ["id-0001"]
        app.table.show((), now=NOW)
        assert [row.id for row in app.table.chosen] == []


async def test_the_neighbour_is_the_next_row_and_nothing_beyond_the_last():
    async with table(count=2) as (app, _):
        assert app.table.neighbour(1) == "id-0001"
        assert app.table.neighbour(1) is None
        assert app.table.cursor_id == "id-0001"


async def test_columns_move_for_a_longer_text_and_not_for_shorter_ones_until_others_are_expected():
    named: ColumnSet[Row] = ColumnSet(
        (
            Column("name", "NAME", lambda row, _: Cell(row.name), 5, 10, grow=1),
            Column("age", "AGE", lambda row, look: Cell(age(look.now - row.sent)), 4),
        )
    )

    async def show(app: TableApp, pilot: Pilot[None], length: int) -> int:
        app.table.show(tuple(replace(row, name="x" * length) for row in rows(3)), now=NOW)
        await pilot.pause()
        return app.table.placed[0].width

    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.columns = named
        assert [await show(app, pilot, length) for length in (12, 30, 8)] == [12, 30, 30]
        app.table.expect_others()
        assert app.table.placed[0].width == 30, "the old rows are still shown"
        assert await show(app, pilot, 8) == 8
