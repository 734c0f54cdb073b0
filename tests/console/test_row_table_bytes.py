"""The bytes that a list and a one-line cell send: few, and the terminal still shows exactly the right text."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from table_app import NOW, Row, TableApp, Terminal, painted, rows
from textual.app import ComposeResult
from textual.pilot import Pilot

from horsies_tui.look import themes
from horsies_tui.widgets.plain import LineCell

# How a list is drawn depends on a theme only by its colours, and on whether they are the terminal's own.
OF_EACH_KIND = (themes.DEFAULT, "horsies-light", themes.ANSI)
EVERY_THEME = [name if name in OF_EACH_KIND else pytest.param(name, marks=pytest.mark.chaos) for name in themes.THEMES]
ROWS = tuple(replace(row, error="TIMEOUT" if number % 3 == 0 else "") for number, row in enumerate(rows(200)))


@asynccontextmanager
async def table(theme: str = themes.DEFAULT) -> AsyncIterator[tuple[TableApp, Pilot[None]]]:
    app = TableApp(theme)
    async with app.run_test(size=(120, 40)) as pilot:
        app.table.show(ROWS, now=NOW)
        await pilot.pause()
        yield app, pilot


def with_changes(changes: dict[int, dict[str, Any]]) -> tuple[Row, ...]:
    return tuple(replace(row, **changes.get(number, {})) for number, row in enumerate(ROWS))


async def sent(app: TableApp, pilot: Pilot[None], change: Callable[[], object]) -> int:
    await painted(app, pilot)
    app.written.clear()
    change()
    await painted(app, pilot)
    return len("".join(app.written).encode())


@pytest.mark.parametrize("theme", EVERY_THEME)
async def test_one_cell_is_far_below_400_bytes_wherever_it_is(theme):
    async with table(theme) as (app, pilot):
        for key in ("state", "name", "error"):
            other = with_changes({20: {key: "changed"}})
            assert 0 < await sent(app, pilot, lambda other=other: app.table.show(other, now=NOW)) < 130
            assert ("38;2;" in "".join(app.written)) is (theme != themes.ANSI)
            app.table.show(ROWS, now=NOW)


async def test_what_is_not_in_view_or_as_before_costs_nothing_and_rows_keys_and_pages_stay_within_their_budgets():
    async with table() as (app, pilot):
        other = with_changes({150: {"name": "changed"}})
        assert await sent(app, pilot, lambda: app.table.show(other, now=NOW)) == 0
        assert await sent(app, pilot, lambda: app.table.tick(NOW)) == 0
        assert await sent(app, pilot, lambda: app.set_focus(None)) == 0
        assert not app.table.has_focus
        assert await sent(app, pilot, app.table.focus) == 0
        assert app.table.has_focus
        row = with_changes({20: {"state": "failed", "name": "x", "sent": NOW - timedelta(days=3), "error": "GONE"}})
        assert await sent(app, pilot, lambda: app.table.show(row, now=NOW)) < 300
        assert await sent(app, pilot, app.table.action_down) < 700
        assert await sent(app, pilot, app.table.action_mark) < 130
        assert await sent(app, pilot, app.table.action_page_down) < 10_000
        # A second that goes by sends the ages that differ.
        await sent(app, pilot, app.table.action_first)
        assert 0 < await sent(app, pilot, lambda: app.table.tick(NOW + timedelta(seconds=1))) < 700


async def test_most_keys_at_the_lower_edge_send_two_lines_and_not_the_screen():
    async with table() as (app, pilot):
        app.table.move_to(38)
        costs = [await sent(app, pilot, app.table.action_down) for _ in range(21)]
        assert sum(cost > 700 for cost in costs) <= 2
        assert sum(costs) / len(costs) < 1_200


async def test_a_hundred_changes_a_second_are_less_than_20_kilobytes_and_twenty_rows_at_once_less_than_one():
    """The feed merges them into four snapshots a second; a key that is pressed after them waits for their bytes."""
    async with table() as (app, pilot):
        changes = {n: {"state": "failed", "sent": NOW, "error": "GONE"} for n in range(0, 40, 2)}
        assert 0 < await sent(app, pilot, lambda: app.table.show(with_changes(changes), now=NOW)) < 1_000
        app.table.show(ROWS, now=NOW)
        chance, now, total = random.Random(5), ROWS, 0
        for tick in range(1, 5):
            numbers = chance.sample(range(39), 25)
            changes = {n: {"state": f"state{tick}", "error": f"E{tick}", "name": f"name{tick}"} for n in numbers}
            now = tuple(replace(row, **changes.get(number, {})) for number, row in enumerate(now))
            total += await sent(app, pilot, lambda now=now: app.table.show(now, now=NOW))
        assert 0 < total < 20_000


async def test_a_style_that_changes_is_painted():
    async with table() as (app, pilot):
        assert await sent(app, pilot, lambda: setattr(app, "theme", "horsies-light")) > 5_000
        ground = app.segments()[5][0].style
        assert ground is not None
        assert ground.bgcolor is not None
        assert ground.bgcolor.name == "#fbfbf9"


@pytest.mark.parametrize("theme", EVERY_THEME)
@pytest.mark.parametrize("seed", range(2))
async def test_the_terminal_shows_exactly_what_was_drawn(theme, seed):
    chance = random.Random(seed)
    async with table(theme) as (app, pilot):
        terminal, whole = Terminal(120, 40), Terminal(120, 40)
        app.screen.refresh()
        await painted(app, pilot)
        current = ROWS
        for _ in range(12):
            current = _one_step(app, current, chance)
            await painted(app, pilot)
            terminal.feed(app.written)
            whole.feed(_painted(app))
            assert terminal.looks() == whole.looks()
        assert terminal.lines() == app.lines()


def _one_step(app: TableApp, current: tuple[Row, ...], chance: random.Random) -> tuple[Row, ...]:
    match chance.randrange(6):
        case 0:
            current = (*rows(chance.randrange(4), first=chance.randrange(300, 900)), *current)
        case 1:
            current = tuple(row for row in current if chance.random() > 0.02)
        case 2:
            current = tuple(
                replace(row, name="日本の task", error="NO") if chance.random() < 0.05 else row for row in current
            )
        case 3:
            chance.choice((app.table.action_page_down, app.table.action_up, app.table.action_last))()
        case 4:
            chance.choice((app.table.action_mark, app.table.action_mark_range, app.table.action_clear_marks))()
        case _:
            app.table.tick(NOW + timedelta(seconds=chance.randrange(90)))
    app.table.show(current, now=NOW, struck=frozenset({current[3].id}))
    return current


def _painted(app: TableApp) -> list[str]:
    """The same picture, painted by Rich from the top."""
    lines = [[segment for segment in line if segment.text] for line in app.segments()]
    text = "\r\n".join("".join(_whole(segment) for segment in line) for line in lines)
    return ["\x1b[0m\x1b[H\x1b[2J" + text]


def _whole(segment: Segment) -> str:
    return segment.style.render(segment.text, color_system=ColorSystem.TRUECOLOR) if segment.style else segment.text


WORDS = (
    "12:04:31Z",
    "12:04:32Z",
    "12:05:00Z",
    "12:05:00Z ♥ 2",
    "12:05:00Z ♥ 3",
    "no clock",
    "",
    "x" * 60,
    "y" * 60,
    "ab",
)


class Cells(TableApp):
    CSS = """
    LineCell { width: 40; }
    #padded { padding: 0 3; }
    #right { text-align: right; }
    #auto { width: auto; }
    """

    def compose(self) -> ComposeResult:
        yield from (LineCell(id=name) for name in ("plain", "padded", "right", "auto"))
        yield self.table


async def test_the_terminal_shows_each_text_whatever_stood_there_before() -> None:
    app = Cells()
    async with app.run_test(size=(50, 8)) as pilot:
        terminal = Terminal(50, 8)
        app.screen.refresh()
        await painted(app, pilot)
        for before in WORDS:
            for words in (before, *WORDS):
                for cell in app.query(LineCell):
                    cell.put(words)
                await painted(app, pilot)
                terminal.feed(app.written)
                assert terminal.lines() == app.lines()


async def test_of_a_clock_that_ticks_one_letter_is_sent() -> None:
    app = Cells()
    async with app.run_test(size=(50, 8)) as pilot:
        cell = app.query_one("#padded", LineCell)
        cell.put("12:04:31Z")
        await painted(app, pilot)
        app.written.clear()
        cell.put("12:04:32Z")
        await painted(app, pilot)
        sent = "".join(app.written)
        assert "2" in sent
        assert "12:04" not in sent
        assert ":" not in sent.replace("\x1b", "")
