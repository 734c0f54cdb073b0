"""A grid of charts, or of one line per chart if there is little room; a chart is drawn when its data change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.message import Message

from horsies_tui.actions import Scope, bindings
from horsies_tui.look.charts import HEAD, Chart, chart_lines, spark_line
from horsies_tui.look.lines import beside, blank_line
from horsies_tui.look.tones import TONES, tone_css
from horsies_tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line

_GAP: Final = 2
LEAST_HEIGHT: Final = 5
"""The least height of a chart: a line of text, three of curves, and one for the time axis."""


class ChartGrid(LineView, can_focus=True):
    """`columns` of charts, as high as there is room; with less than LEAST_HEIGHT each chart is one line."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CHART)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {HEAD, *TONES}
    DEFAULT_CSS = f"""
    ChartGrid {{ height: auto; }}
    ChartGrid > .{HEAD} {{ background: $block-cursor-background; }}
    ChartGrid:ansi > .{HEAD} {{ text-style: reverse; }}
    {tone_css("ChartGrid")}
    """

    @dataclass
    class Opened(Message):
        """Enter on a chart, or a double click."""

        grid: ChartGrid
        chart: Chart

        @property
        def control(self) -> ChartGrid:
            return self.grid

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._charts: tuple[Chart, ...] = ()
        self._columns = 1
        self._chosen = 0
        self._drawn: dict[int, tuple[tuple[Chart, int, int, bool], list[Line]]] = {}
        self.times_drawn = 0
        """How often a chart was drawn."""

    @property
    def chosen(self) -> Chart | None:
        return self._charts[self._chosen] if self._charts else None

    def show(self, charts: Sequence[Chart]) -> None:
        """Show these charts; those with unchanged data are not drawn again."""
        self._charts = tuple(charts)
        self._chosen = min(self._chosen, max(len(charts) - 1, 0))
        self._redraw()

    def stand_in(self, columns: int) -> None:
        """Set the number of charts beside each other."""
        self._columns = columns
        self._redraw()

    def move(self, step: int) -> None:
        """Move the cursor to the next chart, or the previous one."""
        self._chosen = min(max(self._chosen + step, 0), max(len(self._charts) - 1, 0))
        self._redraw()

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def action_up(self) -> None:
        self.move(-self._columns)

    def action_down(self) -> None:
        self.move(self._columns)

    def on_resize(self) -> None:
        self._redraw()

    def on_focus(self, event: events.Focus) -> None:
        super().on_focus(event)
        self._redraw()

    def on_blur(self, event: events.Blur) -> None:
        super().on_blur(event)
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        width, height = self._room()
        row, column = event.y // max(height, 1), event.x // (width + _GAP)
        number = row * self._columns + min(column, self._columns - 1)
        if number < len(self._charts):
            self._chosen = number
            self._redraw()
            if event.chain == 2:
                self.action_open()

    def _room(self) -> tuple[int, int]:
        """The size of one chart."""
        rows = -(-len(self._charts) // self._columns) or 1
        height = self.size.height // rows
        return (self.size.width - (self._columns - 1) * _GAP) // self._columns, height

    def _redraw(self) -> None:
        width, height = self._room()
        if width <= 0 or height <= 0 or not self._charts:
            return
        lines: list[Line] = []
        for first in range(0, len(self._charts), self._columns):
            numbers = range(first, min(first + self._columns, len(self._charts)))
            lines += beside([self._chart(number, width, height) for number in numbers], self.size.width, _GAP)
        missing = self.size.height - len(lines)
        self.draw_lines((lines + [blank_line(self.size.width)] * missing)[: self.size.height])

    def _chart(self, number: int, width: int, height: int) -> list[Line]:
        key = (self._charts[number], width, height, self.has_focus and number == self._chosen)
        before = self._drawn.get(number)
        if before is not None and before[0] == key:
            return before[1]
        chart, _, _, chosen = key
        if height < LEAST_HEIGHT:
            lines = [spark_line(chart, width, self._glyphs, chosen=chosen)]
            lines += [blank_line(width)] * (height - 1)
        else:
            lines = chart_lines(chart, width, height, self._glyphs, chosen=chosen)
        self.times_drawn += 1
        self._drawn[number] = (key, lines)
        return lines
