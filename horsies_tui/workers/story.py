"""The details of one worker: its liveness with the evidence, its resources, and its charts."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len

from horsies.domain.plain_text import clean
from horsies_tui.look.charts import AT, Chart, ChartReading, Curve, chart_lines, spark
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import fit
from horsies_tui.look.lines import Line, Piece, beside, blank_line, damaged_lines, piece
from horsies_tui.look.plot import Fill
from horsies_tui.look.tones import AREA, TONES, Tone, area_css, tone_css
from horsies_tui.look.units import time_of_day
from horsies_tui.widgets.chart_grid import LEAST_HEIGHT
from horsies_tui.widgets.line_view import LineView
from horsies_tui.workers.worker_texts import facts, megabytes, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, tzinfo

    from textual import events

    from horsies.views import WorkerPoint, WorkerRow
    from horsies_tui.intents import Fact
    from horsies_tui.look.glyphs import Glyphs

_BESIDE_FROM: Final = 100
"""Least width at which the charts are shown to the right of the text, instead of below it."""
_LABEL: Final = 10
_VALUE: Final = 7
_FEW: Final = 3
"""Number of lines for charts below the text."""
_CHART_WIDTH: Final = 34
"""The least width of charts that are side by side."""
_WIDE: Final = 160
_TALL: Final = 7
"""Least height of a chart at which charts are shown below each other, in full width for long curves."""
_GAP: Final = 2
_MARGIN: Final = 1
_LATELY: Final = 2
"""Number of points for the current value, because the newest one is incomplete."""


@dataclass(frozen=True, slots=True)
class WorkerPoints:
    """The history of a worker; `points` is None before it is read."""

    row: WorkerRow
    points: Sequence[WorkerPoint] | None
    window: str
    now: datetime
    zone: tzinfo | None
    recover_key: str


class WorkerStory(LineView):
    COMPONENT_CLASSES: ClassVar[set[str]] = {AT, *AREA.values(), *TONES}
    DEFAULT_CSS = f"""
    WorkerStory {{ height: auto; }}
    WorkerStory > .{AT} {{ background: $block-cursor-background; }}
    WorkerStory:ansi > .{AT} {{ text-style: reverse; }}
    {tone_css("WorkerStory")}
    {area_css("WorkerStory")}
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._glyphs = glyphs
        self._shown: WorkerPoints | None = None
        self._drawn: dict[int, tuple[object, list[Line]]] = {}
        self._read_at: datetime | None = None
        """Start of the bucket at the time cursor; None for the newest values."""

    def show(self, shown: WorkerPoints | None) -> None:
        self._shown = shown
        self._redraw()

    def read(self, step: int) -> None:
        """Move the time cursor by `step` buckets, and after the last bucket back to the newest values."""
        points = self._shown.points if self._shown is not None else None
        if not points:
            return
        now = self._reading(points)
        number = (len(points) if now is None else now.number) + step
        self._read_at = None if number >= len(points) else points[max(number, 0)].start
        self._redraw()

    def _reading(self, points: Sequence[WorkerPoint]) -> ChartReading | None:
        """Return the values at the time cursor; None if it is not set or its time has left the window."""
        if self._read_at is None or self._shown is None:
            return None
        number = next((at for at, point in enumerate(points) if point.start == self._read_at), None)
        return None if number is None else ChartReading(number, time_of_day(self._read_at, self._shown.zone))

    def on_resize(self, _event: events.Resize) -> None:
        self._redraw()

    def _redraw(self) -> None:
        if self.size.width and self.size.height:
            self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width, height = self.size
        lines = [] if self._shown is None else self._lines_of(self._shown, width, height)
        return lines[:height] + [blank_line(width)] * (height - len(lines))

    def _lines_of(self, shown: WorkerPoints, width: int, height: int) -> list[Line]:
        title = self._title(shown, width)
        known = facts(shown.row, shown.now, shown.zone, shown.recover_key)
        inner, left = width - 2 * _MARGIN, height - 1
        if width >= _BESIDE_FROM:
            words = (inner * 2 // 5 if width >= _WIDE else inner // 2) - 1
            parts = (
                _padded(self._facts(known, words), left, words),
                _padded(self._plots(shown, inner - words - 2, left), left, inner - words - 2),
            )
            return [title, *map(_framed, beside(parts, inner))]
        plotted = self._plots(shown, inner, min(max(left - 2, 0), _FEW))
        return [title, *map(_framed, [*self._facts(known, inner)[: left - len(plotted)], *plotted])]

    def _title(self, shown: WorkerPoints, width: int) -> Line:
        glyphs, row = self._glyphs, shown.row
        text: str = clean(glyphs.text(f"{sign(row.liveness, glyphs)} {row.name}"))
        window = f" last {shown.window} {glyphs.rule}"
        room = width - cell_len(window) - 4
        text = fit(text, min(cell_len(text), max(room, 0)), glyphs)
        rule = glyphs.rule * max(width - cell_len(text) - cell_len(window) - 4, 0)
        edge = piece(glyphs.rule * 2 + " ", Tone.MUTED)
        return (edge, piece(f"{text} ", Tone.STRONG), piece(rule + window, Tone.MUTED))

    def _facts(self, known: Sequence[Fact], width: int) -> list[Line]:
        lines: list[Line] = []
        room = max(width - _LABEL, 1)
        for fact in known:
            label = fact.label
            # The texts were written by the worker's host, so control characters are removed.
            for text in textwrap.wrap(clean(self._glyphs.text(fact.text)), room, break_on_hyphens=False):
                classes = (fact.tone,) if fact.tone else ()
                said = Piece(fit(self._glyphs.text(label), _LABEL, self._glyphs), _LABEL, (Tone.MUTED,))
                lines.append((said, Piece(fit(text, room, self._glyphs), room, classes)))
                label = ""
        return lines

    def _plots(self, shown: WorkerPoints, width: int, height: int) -> list[Line]:
        """Return as much as fits: charts side by side, charts below each other, one chart and lines, or only lines."""
        if shown.points is None or height < 1:
            return []
        if all(point.at is None for point in shown.points):
            words = f"No snapshot in the last {shown.window}; ] widens the window."
            return [(Piece(fit(words, width, self._glyphs), width, (Tone.MUTED,)),)]
        every = charts(shown.points, shown.window)
        reading = self._reading(shown.points)
        if height >= len(every) * _TALL or (width < len(every) * _CHART_WIDTH and height >= len(every) * LEAST_HEIGHT):
            each, more = divmod(height, len(every))
            return [
                line
                for number, chart in enumerate(every)
                for line in self._chart(number, chart, width, each + (number < more), reading)
            ]
        if width >= len(every) * _CHART_WIDTH and height >= LEAST_HEIGHT:
            each = (width - _GAP * (len(every) - 1)) // len(every)
            parts = [self._chart(number, chart, each, height, reading) for number, chart in enumerate(every)]
            return beside(parts, width, _GAP)
        lines = [self._spark(chart, width) for chart in every]
        first = height - len(every) + 1
        if first < LEAST_HEIGHT:
            return lines[:height]
        return self._chart(0, every[0], width, first, reading) + lines[1:]

    def _chart(self, number: int, chart: Chart, width: int, height: int, reading: ChartReading | None) -> list[Line]:
        """Return the lines of a chart, which is redrawn only if its data have changed."""
        key = (chart.title, chart.curves, chart.span, width, height, reading)
        before = self._drawn.get(number)
        if before is None or before[0] != key:
            lines = drawn(
                f"chart {chart.title}",
                lambda: chart_lines(chart, width, height, self._glyphs, reading=reading),
                lambda words: damaged_lines(words, width, height, self._glyphs),
            )
            before = self._drawn[number] = key, lines
        return before[1]

    def _spark(self, chart: Chart, width: int) -> Line:
        curve = chart.curves[0]
        room = max(width - _LABEL - _VALUE - 1, 1)
        top = chart.height if chart.top is not None else None
        bars = spark(curve.values, room, top=top, ascii_only=self._glyphs.ascii)
        return (
            Piece(fit(chart.title, _LABEL, self._glyphs), _LABEL, (Tone.MUTED,)),
            Piece(bars + " ", room + 1, (curve.tone,)),
            Piece(fit(curve.now, _VALUE, self._glyphs, right=True), _VALUE),
        )


def _padded(lines: list[Line], height: int, width: int) -> list[Line]:
    return lines[:height] + [blank_line(width)] * (height - len(lines))


def _framed(line: Line) -> Line:
    edge = Piece(" " * _MARGIN, _MARGIN)
    return (edge, *line, edge)


def charts(points: Sequence[WorkerPoint], span: str) -> tuple[Chart, ...]:
    """Return charts of how busy the worker was, its CPU and its memory; the first curve of each matters most."""
    processes = max((point.processes or 0 for point in points), default=0)
    busy = _of(points, _busy)
    claimed = _of(points, lambda one: one.claimed)
    cpu = _of(points, lambda one: one.cpu_percent)
    whole, own = _of(points, _whole), _of(points, lambda one: one.memory_mb)
    return (
        Chart(
            "busy",
            (
                Curve("", busy, Tone.RUNNING, _now(busy, lambda number: f"{number:.0f}/{processes}")),
                Curve("claimed", claimed, Tone.CLAIMED, _now(claimed, _count), Fill.LINE),
            ),
            _count,
            span,
            top=_highest((*busy, *claimed, processes)),
        ),
        Chart("cpu", (Curve("", cpu, Tone.GOOD, _now(cpu, _percent)),), _percent, span, top=_highest((*cpu, 100.0))),
        Chart(
            "memory",
            (
                Curve("", whole, Tone.CLAIMED, _now(whole, megabytes), Fill.BAND),
                Curve("its own", own, Tone.MUTED, _now(own, megabytes)),
            ),
            megabytes,
            span,
        ),
    )


def _of(points: Sequence[WorkerPoint], value: Callable[[WorkerPoint], float | None]) -> tuple[float | None, ...]:
    return tuple(value(point) for point in points)


def _busy(point: WorkerPoint) -> int | None:
    """Return the number of busy processes. One that runs many async tasks counts once."""
    return point.running if point.running is None or point.processes is None else min(point.running, point.processes)


def _whole(point: WorkerPoint) -> float | None:
    return None if point.memory_mb is None else point.memory_mb + (point.children_memory_mb or 0.0)


def _now(values: Sequence[float | None], write: Callable[[float], str]) -> str:
    """Return the current value as text; empty without a recent snapshot."""
    lately = [value for value in values[-_LATELY:] if value is not None]
    return write(lately[-1]) if lately else ""


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value), default=1.0)


def _count(number: float) -> str:
    return f"{number:g}"


def _percent(number: float) -> str:
    return f"{number:.0f}%"
