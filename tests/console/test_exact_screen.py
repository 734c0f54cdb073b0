"""Only changes are sent, at every colour depth that a terminal may have, and below a sheet and in it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from table_app import COLUMNS, NOW, Row, TableApp, Terminal, painted, rows
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget

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


async def at_rest(app: SheetApp, pilot: Pilot[None], terminal: Terminal) -> None:
    """Wait until a sheet that was opened is laid out, and nothing more is written."""
    while True:
        terminal.feed(app.written)
        await painted(app, pilot)
        await painted(app, pilot)
        if not app.written:
            return


async def test_below_a_sheet_and_in_it_only_changes_are_sent() -> None:
    """The screen below was sent whole at each of its changes, 10 kB: a watched output filled a link of 30 kB/s."""
    below, above = rows(30), rows(30, first=100)
    app, terminal = SheetApp(), Terminal(120, 40)
    async with app.run_test(size=(120, 40)) as pilot:
        app.table.show(below, now=NOW)
        sheet = RowsSheet()
        await app.push_screen(sheet)
        sheet.table.show(above, now=NOW)
        await at_rest(app, pilot, terminal)
        # With the first change below comes the whole repaint that Textual asked for when the sheet was opened.
        app.table.show((replace(below[0], name="none"), *below[1:]), now=NOW)
        await at_rest(app, pilot, terminal)
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
        await at_rest(app, pilot, terminal)
        assert terminal.lines() == app.lines()
        app.refresh(layout=True)  # as Textual does once more, later, when the sheet's widgets are gone
        await painted(app, pilot)
        assert app.written == []


class SeeThroughApp(SheetApp):
    """Its sheets show the screen below them, as the console's do."""

    CSS = "ModalScreen { background: transparent; }"


async def test_below_two_sheets_a_change_reaches_the_terminal() -> None:
    """The sheet between kept the lines of the screen below it, and the clock stood still."""
    below = rows(30)
    app, terminal = SeeThroughApp(), Terminal(120, 40)
    async with app.run_test(size=(120, 40)) as pilot:
        app.table.show(below, now=NOW)
        await app.push_screen(RowsSheet())
        await app.push_screen(RowsSheet())
        await at_rest(app, pilot, terminal)
        for name in ("first", "second", "third"):
            app.table.show((replace(below[0], name=name), *below[1:]), now=NOW)
            await at_rest(app, pilot, terminal)
            assert name in "".join(terminal.lines())


class Parts(Widget):
    """Draws one of its parts."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"parts--drawn", "parts--other"}
    DEFAULT_CSS = """
    Parts {
        & > .parts--drawn { color: red; }
        & > .parts--other { color: green; }
        &.-new > .parts--drawn { color: blue; }
        &.-other > .parts--other { color: blue; }
    }
    """
    drawn = 0

    def render(self) -> str:
        self.drawn += 1
        return self.get_component_styles("parts--drawn").color.css


class PartsApp(CrashKeepingApp[None]):
    def compose(self) -> ComposeResult:
        yield Parts()


async def test_only_styles_of_parts_that_are_drawn_are_computed_and_lead_to_another_drawing() -> None:
    app = PartsApp()
    async with app.run_test() as pilot:
        parts = app.query_one(Parts)
        await pilot.pause()
        assert list(parts._component_styles) == ["parts--drawn"]
        assert parts.render() == "rgb(255,0,0)"
        before = parts.drawn
        parts.add_class("-other")
        await pilot.pause()
        assert (parts.drawn, list(parts._component_styles)) == (before, ["parts--drawn"])
        parts.add_class("-new")
        await pilot.pause()
        assert parts.drawn > before
        assert parts.render() == "rgb(0,0,255)"
        with pytest.raises(KeyError):
            parts.get_component_styles("parts--unknown")
