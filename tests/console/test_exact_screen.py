"""Only changes are sent, at every colour depth that a terminal may have, and below a sheet and in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from table_app import COLUMNS, NOW, Row, TableApp, Terminal, painted, rows
from textual.app import ComposeResult

from horsies_tui.textual_internals import CrashKeepingApp
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.sheet import Sheet


@pytest.mark.parametrize("colours", [*COLOR_SYSTEMS.values(), None])
async def test_a_changed_row_is_painted_in_every_colour_system(colours: ColorSystem | None) -> None:
    before = rows(5)
    app = TableApp()
    async with app.run_test(size=(120, 10)) as pilot:
        app.table.show(before, now=NOW)
        await painted(app, pilot)
        terminal = Terminal(120, 10)
        terminal.feed(app.written)
        # Only now: Rich caches a style at the first colour depth that it was painted in.
        app.console._color_system = colours
        app.table.show((*before[:2], replace(before[2], name="another", error="TIMEOUT"), *before[3:]), now=NOW)
        await painted(app, pilot)
        written = "".join(app.written)
        terminal.feed(app.written)
        assert terminal.lines() == app.lines()
        assert "another" in written
        assert len(written) < 400
        assert ("38;2;" in written) is (colours in (ColorSystem.TRUECOLOR, None))


class SheetApp(TableApp, CrashKeepingApp[None]):
    """The same table below a sheet."""


class RowsSheet(Sheet[None]):
    """A sheet with a table of its own."""

    DEFAULT_CSS = "RowsSheet > #sheet { height: 60vh; }"

    def compose(self) -> ComposeResult:
        yield RowTable(COLUMNS, id="sheet")

    @property
    def table(self) -> RowTable[Row]:
        return self.query_one(RowTable)


def is_whole(written: str, lines: int) -> bool:
    """Whether the cursor was moved to the begin of every line."""
    return all(f"\x1b[{line};1H" in written for line in range(1, lines + 1))


async def test_below_a_sheet_and_in_it_only_changes_are_sent() -> None:
    """The screen below was sent whole at each of its changes, 10 kB: a watched output filled a link of 30 kB/s."""
    below, above = rows(30), rows(30, first=100)
    app, terminal = SheetApp(), Terminal(120, 40)
    async with app.run_test(size=(120, 40)) as pilot:
        app.table.show(below, now=NOW)
        sheet = RowsSheet()
        await app.push_screen(sheet)
        sheet.table.show(above, now=NOW)
        await painted(app, pilot)
        terminal.feed(app.written)
        sizes = []
        for name in ("one", "two", "three"):
            app.table.show((replace(below[0], name=name), *below[1:]), now=NOW)
            sheet.table.show((replace(above[0], name=name), *above[1:]), now=NOW)
            await painted(app, pilot)
            sizes.append(len("".join(app.written)))
            terminal.feed(app.written)
            assert terminal.lines() == app.lines()
        assert max(sizes) < 300

        await sheet.dismiss(None)
        await painted(app, pilot)
        assert [is_whole(part, 40) for part in app.written].count(True) == 1
        terminal.feed(app.written)
        assert terminal.lines() == app.lines()
