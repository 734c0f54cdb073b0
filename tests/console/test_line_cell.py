"""A one-line cell: the terminal shows it at any alignment, and of a clock only the changed digits are sent."""

from __future__ import annotations

from table_app import TableApp, Terminal, painted
from textual.app import ComposeResult

from horsies_tui.widgets.plain import LineCell

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
