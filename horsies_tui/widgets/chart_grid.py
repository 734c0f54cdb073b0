"""A grid of charts, or a list of one line per chart if there is little room. A chart is redrawn if its data change.

One cursor selects the chart, a second one the time for which all charts show their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual.message import Message

from horsies_tui.actions import Scope, bindings
from horsies_tui.look.charts import AT, HEAD, SCALE, Chart, ChartReading, chart_lines, spark_line
from horsies_tui.look.damage import drawn
from horsies_tui.look.lines import beside, blank_line, damaged_lines, words_line
from horsies_tui.look.tones import AREA, TONES, area_css, tone_css
from horsies_tui.look.units import time_of_day
from horsies_tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from textual import events
    from textual.binding import BindingType

    from horsies.views import Buckets
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line

_GAP: Final = 2
LEAST_HEIGHT: Final = 5
"""The least height of a chart: one line of text, three lines of curves, and the time axis."""


class ChartGrid(LineView, can_focus=True):
    """Charts in columns that fill the height. With less than LEAST_HEIGHT for each, a chart is one line."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CHART)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {AT, HEAD, *AREA.values(), *TONES}
    DEFAULT_CSS = f"""
    ChartGrid {{ height: auto; }}
    ChartGrid > .{HEAD}, ChartGrid > .{AT} {{ background: $block-cursor-background; }}
    ChartGrid:ansi > .{HEAD}, ChartGrid:ansi > .{AT} {{ text-style: reverse; }}
    {tone_css("ChartGrid")}
    {area_css("ChartGrid")}
    """

    @dataclass
    class Opened(Message):
        """A chart was opened by enter or a double click. `rows` is the filter of the tasks behind the values."""

        grid: ChartGrid
        rows: str | None

        @property
        def control(self) -> ChartGrid:
            return self.grid

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._charts: tuple[Chart, ...] = ()
        self._buckets: Buckets | None = None
        self._zone: tzinfo | None = None
        self._nothing = ""
        self._columns = 1
        self._chosen = 0
        self._read_at: datetime | None = None
        """Start of the bucket at the time cursor; None for the newest values."""
        self._drawn: dict[int, tuple[object, list[Line]]] = {}
        self.times_drawn = 0
        """Number of times that a chart was drawn."""

    @property
    def chosen(self) -> Chart | None:
        return self._charts[self._chosen] if self._charts else None

    @property
    def is_empty(self) -> bool:
        """True if a message is shown instead of the charts."""
        return bool(self._nothing)

    @property
    def reading(self) -> ChartReading | None:
        """The values at the time cursor; None if it is not set or its time has left the window."""
        if self._buckets is None or self._read_at is None or not self.has_focus:
            return None
        number = self._buckets.index(self._read_at)
        return None if number is None else ChartReading(number, time_of_day(self._read_at, self._zone))

    def show(self, charts: Sequence[Chart], buckets: Buckets, *, zone: tzinfo | None, nothing: str = "") -> None:
        """Show these charts of these buckets. Charts with unchanged data are not redrawn.

        `nothing` is the message that is shown if no chart has a value.
        """
        self._charts, self._buckets, self._zone = tuple(charts), buckets, zone
        self._nothing = nothing if all(chart.is_empty for chart in charts) else ""
        self._chosen = min(self._chosen, max(len(charts) - 1, 0))
        self._redraw()

    def stand_in(self, columns: int) -> None:
        """Set the number of charts per line."""
        self._columns = columns
        self._redraw()

    def read(self, step: int) -> None:
        """Move the time cursor by `step` buckets, and after the last bucket back to the newest values."""
        if self._buckets is None:
            return
        now = self.reading
        number = (self._buckets.count if now is None else now.number) + step
        self._read_at = None if number >= self._buckets.count else self._buckets.starts[max(number, 0)]
        self._redraw()

    def action_open(self) -> None:
        chart, reading, buckets = self.chosen, self.reading, self._buckets
        if chart is None:
            return
        rows = chart.rows
        if reading is not None and buckets is not None and chart.rows_between is not None:
            start = buckets.starts[reading.number]
            rows = chart.rows_between(start, start + buckets.step)
        self.post_message(self.Opened(self, rows))

    def action_up(self) -> None:
        self._choose(-1)

    def action_down(self) -> None:
        self._choose(1)

    def _choose(self, step: int) -> None:
        """Select the chart below (negative: above). The last chart of a column is followed by the first of the next."""
        count, columns = len(self._charts), self._columns
        in_turn = [number for column in range(columns) for number in range(column, count, columns)]
        if in_turn:
            self._chosen = in_turn[min(max(in_turn.index(self._chosen) + step, 0), count - 1)]
            self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _focus_changed(self) -> None:
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        width, height = self._room()
        row, column = event.y // max(height, 1), event.x // (width + _GAP)
        number = row * self._columns + min(column, self._columns - 1)
        if number < len(self._charts):
            self._chosen = number
            self._read_column(event.x - column * (width + _GAP) - SCALE, width - SCALE)
            self._redraw()
            if event.chain == 2:
                self.action_open()

    def _read_column(self, x: int, width: int) -> None:
        """Move the time cursor to the bucket under the mouse."""
        if self._buckets is not None and 0 <= x < width and self._room()[1] >= LEAST_HEIGHT:
            self._read_at = self._buckets.starts[x * self._buckets.count // width]

    def _room(self) -> tuple[int, int]:
        """Return width and height of one chart."""
        rows = -(-len(self._charts) // self._columns) or 1
        height = self.size.height // rows
        return (self.size.width - (self._columns - 1) * _GAP) // self._columns, height

    def _redraw(self) -> None:
        width, height = self._room()
        if width > 0 and height > 0 and self._charts:
            self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width, height = self._room()
        lines = [words_line(self._nothing, self._glyphs, self.size.width)] if self._nothing else []
        for first in range(0, 0 if lines else len(self._charts), self._columns):
            numbers = range(first, min(first + self._columns, len(self._charts)))
            lines += beside([self._chart(number, width, height) for number in numbers], self.size.width, _GAP)
        missing = self.size.height - len(lines)
        return (lines + [blank_line(self.size.width)] * missing)[: self.size.height]

    def _chart(self, number: int, width: int, height: int) -> list[Line]:
        reading = self.reading
        chart, chosen = self._charts[number], self.has_focus and number == self._chosen
        key = (chart, width, height, chosen, reading)
        before = self._drawn.get(number)
        if before is not None and before[0] == key:
            return before[1]

        def draw() -> list[Line]:
            if height >= LEAST_HEIGHT:
                return chart_lines(chart, width, height, self._glyphs, chosen=chosen, reading=reading)
            spark = spark_line(chart, width, self._glyphs, chosen=chosen, reading=reading)
            return [spark, *[blank_line(width)] * (height - 1)]

        lines = drawn(f"chart {chart.title}", draw, lambda words: damaged_lines(words, width, height, self._glyphs))
        self.times_drawn += 1
        self._drawn[number] = (key, lines)
        return lines
