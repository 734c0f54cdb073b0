"""An application with only a RowTable, which records its messages and its output to the terminal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyte
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen

from horsies_tui.look import themes
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age
from horsies_tui.textual_internals import ExactScreen
from horsies_tui.widgets.row_table import RowTable

NOW = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    id: str
    state: str = "running"
    name: str = "send_confirmation"
    sent: datetime = NOW - timedelta(seconds=4)
    error: str = ""


def rows(count: int, *, first: int = 0) -> tuple[Row, ...]:
    return tuple(
        Row(f"id-{n:04}", name=f"task_{n}", sent=NOW - timedelta(seconds=n * 7)) for n in range(first, first + count)
    )


COLUMNS: ColumnSet[Row] = ColumnSet(
    (
        Column("state", "STATE", lambda row, _: Cell(row.state, Tone.FAILED if row.error else Tone.RUNNING), 10),
        Column("id", "ID", lambda row, _: Cell(row.id, Tone.MUTED), 8),
        Column("name", "NAME", lambda row, _: Cell(row.name), 20),
        Column("age", "AGE", lambda row, look: Cell(age(look.now - row.sent)), 4, whole=30, right=True),
        Column("error", "ERROR", lambda row, _: Cell(row.error, Tone.BAD), 5, 36, grow=1),
    )
)


class TableApp(App[None]):
    """`written` is the output since it was last cleared."""

    is_headless = False  # so that textual renders for its driver, which discards the output
    CSS = "Screen { background: $background; }"

    def __init__(self, theme: str = themes.DEFAULT) -> None:
        super().__init__(ansi_color=themes.THEMES[theme].ansi or None)
        for known in themes.THEMES.values():
            self.register_theme(known)
        self.theme = theme
        self.table = RowTable(COLUMNS, id="rows")
        self.told: list[Message] = []
        self.written: list[str] = []

    def get_default_screen(self) -> Screen[object]:
        return ExactScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        assert self._driver is not None
        self._driver.write = self.written.append
        self.table.focus()

    def on_row_table_cursor_moved(self, message: RowTable.CursorMoved) -> None:
        self.told.append(message)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        self.told.append(message)

    def on_row_table_marks_changed(self, message: RowTable.MarksChanged) -> None:
        self.told.append(message)

    def on_row_table_near_edge(self, message: RowTable.NearEdge) -> None:
        self.told.append(message)

    def lines(self) -> list[str]:
        """The expected text on the screen."""
        return ["".join(segment.text for segment in line).rstrip() for line in self.segments()]

    def segments(self) -> list[list[Segment]]:
        return [list(strip) for strip in self.screen._compositor.render_strips()]


async def painted(app: TableApp, pilot: Pilot[None]) -> None:
    """Wait until everything is on the terminal."""
    await pilot.pause()
    done = asyncio.Event()
    app.screen.call_after_refresh(done.set)
    await done.wait()


class Terminal:
    """A terminal emulator fed with an application's output."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)

    def feed(self, written: list[str]) -> None:
        self._stream.feed("".join(written))
        written.clear()

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def looks(self) -> list[list[tuple[str, str, str, bool, bool, bool]]]:
        """Letter, colour, ground, bold, strikethrough and reverse of every place, as far as they can be seen."""
        places = ([self.screen.buffer[y][x] for x in range(self.screen.columns)] for y in range(self.screen.lines))
        return [[self._look(char) for char in line] for line in places]

    @staticmethod
    def _look(char: pyte.screens.Char) -> tuple[str, str, str, bool, bool, bool]:
        if char.data == " " and not (char.strikethrough or char.reverse or char.underscore):
            return " ", "", char.bg, False, False, False  # a blank shows only its ground
        return char.data, char.fg, char.bg, char.bold, char.strikethrough, char.reverse
