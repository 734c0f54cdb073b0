"""Partial updates work at every colour depth that a terminal may have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from table_app import NOW, TableApp, Terminal, painted, rows


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
