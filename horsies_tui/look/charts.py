"""A chart as comparable lines: values as text, curves or bars, the scale and the time axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies_tui.look.glyphs import cut
from horsies_tui.look.lines import Piece, Span, span_pieces, words
from horsies_tui.look.plot import NOTHING, Fill, Mark, place_of, plot
from horsies_tui.look.tones import AREA, Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line

HEAD: Final = "chart--head"
"""The component class of the first line of the chart with the cursor."""
AT: Final = "chart--at"
"""The component class of the time at the cursor."""

SCALE: Final = 7
"""Width left of the curves, for the highest value, half of it, and zero."""
_STEPS: Final = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
"""Numbers that are short, and so are their halves."""
_TIMES: Final = tuple(size * unit for unit in (1, 60, 3_600) for size in (1, 2, 5, 10, 20, 30))
_SPARK: Final = 16
LEAST: Final = 1e-9
"""Smallest value that is not drawn as zero: the power of ten of the smallest floats cannot be computed."""
_MOST: Final = 1e12
"""Largest value, in seconds the longest time that can be formatted; larger values are drawn as this one."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-:=+*#"
OUTAGE: Final = "x"
DEPLOYED: Final = "+"
OPERATED: Final = "*"
"""Signs on the time axis for an outage of the database, a new version and an operator's action; the same in ASCII."""
_DARK: Final = "no data"
_PEAK_FROM: Final = 4
"""Minimum height at which the highest point of a curve is labelled with its value."""


def round_up(value: float) -> float:
    """Round up to 1, 2, 4, 6 or 8 times a power of ten; zero becomes 1."""
    if value < LEAST:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _STEPS if step * size >= value * (1 - 1e-9))


def round_up_time(seconds: float) -> float:
    """Round up to a usual time: 1, 2, 5, 10, 20 or 30 seconds, minutes or hours."""
    return next((step for step in _TIMES if step >= seconds > 1), 0.0) or round_up(seconds)


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve. `now` is the newest value as text; a gap in `values` is None."""

    name: str
    values: tuple[float | None, ...]
    tone: Tone
    now: str
    fill: Fill = Fill.AREA

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", drawable(self.values))


@dataclass(frozen=True, slots=True)
class Chart:
    """The content of a chart.

    `write` formats a value of the scale, which ends at `top` or at the highest value. The first curve is the most
    important and is drawn above the others.
    """

    title: str
    curves: tuple[Curve, ...]
    write: Callable[[float], str]
    span: str
    top: float | None = None
    round_up: Callable[[float], float] = round_up
    rows: str | None = None
    """The filter for the tasks that the newest values count."""
    rows_between: Callable[[datetime, datetime], str] | None = None
    """Returns the filter for the tasks between two times."""
    newest: str = "now"
    """The name of the newest value's time: now, or the last minutes."""
    nothing: str = "nothing is known of this time"
    """Text for a chart without any value."""
    dark: tuple[int, ...] = ()
    """Numbers of the values during which the database took no heartbeat; they are drawn as a band."""
    signs: Mapping[int, str] = field(default_factory=dict)
    """Signs on the time axis by the number of the value."""

    @property
    def is_empty(self) -> bool:
        return all(value is None for curve in self.curves for value in curve.values)

    @property
    def height(self) -> float:
        """Return the value at the top of the scale, a round number."""
        highest = max((value for curve in self.curves for value in curve.values if value is not None), default=0.0)
        return self.top if self.top is not None and highest <= self.top else self.round_up(highest)


@dataclass(frozen=True, slots=True)
class ChartReading:
    """The value at the cursor, shown in place of the newest one: its number, and its time as text."""

    number: int
    time: str


def chart_lines(
    chart: Chart, width: int, height: int, glyphs: Glyphs, *, chosen: bool = False, reading: ChartReading | None = None
) -> list[Line]:
    """Return the chart in this size."""
    head = _head(chart, width, glyphs, chosen=chosen, reading=reading)
    canvas = _canvas(chart, width, max(height - 2, 0), glyphs, reading)
    return [head, *canvas, _foot(chart, width, glyphs, reading)][:height]


def spark_line(
    chart: Chart, width: int, glyphs: Glyphs, *, chosen: bool = False, reading: ChartReading | None = None
) -> Line:
    """Return the chart on one line: the text, then the first curve as bars."""
    room = min(_SPARK, width // 3)
    curve = chart.curves[0]
    bars = spark(curve.values, room, top=chart.top, ascii_only=glyphs.ascii)
    head = _head(chart, width - room - 1, glyphs, chosen=chosen, reading=reading)
    if reading is None or room <= 0:
        return (*head, Piece(bars + " ", room + 1, (curve.tone,)))
    at = place_of(reading.number, len(curve.values), room)
    parts = ((bars[:at], ()), (bars[at], (AT,)), (bars[at + 1 :] + " ", ()))
    return (*head, *(Piece(text, len(text), (curve.tone, *more)) for text, more in parts if text))


def _head(chart: Chart, width: int, glyphs: Glyphs, *, chosen: bool, reading: ChartReading | None) -> Line:
    """Return a line like `finished/s 12.1 p95 0.2s`; each value has the colour of its curve."""
    over = (HEAD,) if chosen else ()
    sign = glyphs.cursor if chosen else " "
    spans = [Span(sign, Tone.ACCENT), words(f"{chart.title} ", Tone.MUTED, glyphs)]
    for number, curve in enumerate(chart.curves):
        name = f"{'  ' if number else ''}{curve.name} " if curve.name else "  " if number else ""
        value = curve.now if reading is None else _value_at(chart, curve, reading.number, glyphs)
        spans += [words(name, Tone.MUTED, glyphs), words(value, curve.tone, glyphs)]
    return tuple(span_pieces(tuple(spans), width, glyphs, over))


def _value_at(chart: Chart, curve: Curve, number: int, glyphs: Glyphs) -> str:
    value = curve.values[number] if number < len(curve.values) else None
    return glyphs.dash if value is None else chart.write(value)


def _canvas(chart: Chart, width: int, height: int, glyphs: Glyphs, reading: ChartReading | None) -> list[Line]:
    inner = width - SCALE
    if inner <= 0 or height <= 0 or chart.is_empty:
        return _nothing(chart, width, height, glyphs)
    top = chart.height
    curves = [(curve.values, curve.fill) for curve in chart.curves]
    grid = plot(curves, inner, height, top=top, ascii_only=glyphs.ascii)
    _darken(grid, chart, glyphs)
    _label_peak(grid, chart, glyphs)
    labels = {0: chart.write(top), height - 1: "0"}
    half, written = height // 2, chart.write(top / 2)
    if height >= 3 and written not in labels.values():
        labels[half] = written
        _rule(grid[half], glyphs, "⠁" if height % 2 == 0 else "⠂")
    at = None if reading is None else place_of(reading.number, len(chart.curves[0].values), inner)
    lines = []
    for number, marks in enumerate(grid):
        label = cut(glyphs.text(labels.get(number, "")), SCALE - 1, glyphs).rjust(SCALE - 1)
        lines.append((Piece(f"{label} ", SCALE, (Tone.MUTED,)), *_pieces(marks, chart, at, glyphs)))
    return lines


def _darken(grid: list[list[Mark]], chart: Chart, glyphs: Glyphs) -> None:
    """Draw the band of an outage, labelled where it is wide enough."""
    width, count = len(grid[0]), len(chart.curves[0].values)
    columns = sorted({at for number in chart.dark for at in _columns(number, count, width)})
    for row in grid:
        for at in columns:
            if row[at] is NOTHING:
                row[at] = Mark("/" if glyphs.ascii else "░")
    middle = grid[len(grid) // 2]
    for first in columns:
        if all(first + at in columns for at in range(-1, len(_DARK) + 1)):
            middle[first : first + len(_DARK)] = [Mark(char) for char in _DARK]
            break


def _columns(number: int, count: int, width: int) -> range:
    """Return the columns of one value."""
    return range(number * width // count, max((number + 1) * width // count, number * width // count + 1))


def _rule(marks: list[Mark], glyphs: Glyphs, dot: str) -> None:
    """Draw the line at half of the highest value, where no curve is."""
    for x, mark in enumerate(marks):
        if mark is NOTHING:
            marks[x] = Mark(("-" if x % 2 == 0 else " ") if glyphs.ascii else dot)


def _label_peak(grid: list[list[Mark]], chart: Chart, glyphs: Glyphs) -> None:
    """Write the highest value above its point, or beside it at the top; omit it if there is no room."""
    width = len(grid[0])
    value, number, at = max(
        (value, -number, at)
        for number, curve in enumerate(chart.curves)
        for at, value in enumerate(curve.values)
        if value is not None
    )
    text = glyphs.text(chart.write(value))
    if len(grid) < _PEAK_FROM or value <= 0 or cell_len(text) != len(text) or len(text) > width:
        return
    x = place_of(at, len(chart.curves[-number].values), width)
    line = next((y for y, marks in enumerate(grid) if marks[x].curve is not None), 0)
    row = grid[max(line - 1, 0)]
    start = min(max(x - len(text) // 2, 0), width - len(text))
    starts = (start,) if line > 0 else (x + 2, x - len(text) - 1)
    for first in starts:
        if 0 <= first <= width - len(text) and all(mark is NOTHING for mark in row[first : first + len(text)]):
            row[first : first + len(text)] = [Mark(char, -number) for char in text]
            return


def _pieces(marks: Sequence[Mark], chart: Chart, at: int | None, glyphs: Glyphs) -> list[Piece]:
    styled = [(mark.char, _classes(mark, chart)) for mark in marks]
    if at is not None:
        char, classes = styled[at]
        styled[at] = (glyphs.ended, (Tone.ACCENT,)) if marks[at].curve is None else (char, (*classes, AT))
    pieces = []
    for classes, run in groupby(styled, lambda one: one[1]):
        text = "".join(char for char, _ in run)
        pieces.append(Piece(text, len(text), classes))
    return pieces


def _classes(mark: Mark, chart: Chart) -> tuple[str, ...]:
    if mark.curve is None:
        return () if mark is NOTHING else (Tone.MUTED,)
    tone = chart.curves[mark.curve].tone
    return (tone, AREA[tone]) if mark.inner else (tone,)


def _nothing(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    blank = (Piece(" " * width, width),)
    text = cut(" " * SCALE + glyphs.text(chart.nothing), width, glyphs).ljust(width)
    return [(Piece(text, width, (Tone.MUTED,)),) if number == height // 2 else blank for number in range(height)]


def _foot(chart: Chart, width: int, glyphs: Glyphs, reading: ChartReading | None) -> Line:
    """Return a line like `1h ago ─────── now`, with the time at the cursor in its place."""
    first, last = f"{' ' * SCALE}{chart.span} ago ", f" {chart.newest}"
    rule = glyphs.rule * max(width - len(first) - len(last), 0)
    text = cut(f"{first}{rule}{last}", width, glyphs).ljust(width)
    for number, sign in chart.signs.items():
        at = SCALE + place_of(number, len(chart.curves[0].values), max(width - SCALE, 1))
        if at < width and text[at] == glyphs.rule:
            text = text[:at] + sign + text[at + 1 :]
    if reading is None or chart.is_empty or len(reading.time) > width - SCALE:
        return (Piece(text, width, (Tone.MUTED,)),)
    at = SCALE + place_of(reading.number, len(chart.curves[0].values), width - SCALE)
    start = min(max(at - len(reading.time) // 2, SCALE), width - len(reading.time))
    end = start + len(reading.time)
    parts = ((text[:start], Tone.MUTED), (reading.time, Tone.ACCENT), (text[end:], Tone.MUTED))
    return tuple(Piece(part, len(part), (tone,)) for part, tone in parts if part)


def drawable(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the values as a curve can show them: NaN becomes a gap, and values are limited to the bounds."""
    return tuple(_drawable(value) for value in values)


def _drawable(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return 0.0 if value < LEAST else min(value, _MOST)


def spark(values: Sequence[float | None], width: int, *, top: float | None = None, ascii_only: bool = False) -> str:
    """Return `width` characters, each the highest of its values; a blank is a gap, the lowest bar is close to zero."""
    peaks = squeezed(drawable(values), width)
    highest = top if top is not None else max((peak for peak in peaks if peak is not None), default=0.0)
    return "".join(_bar(peak, highest, _PLAIN if ascii_only else _BARS) for peak in peaks)


def squeezed(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return one value per column, the highest of those that fall into it; fewer values are right-aligned."""
    count = len(values)
    if count <= width:
        return [None] * (width - count) + list(values)
    found: list[float | None] = []
    for place in range(width):
        part = values[place * count // width : (place + 1) * count // width]
        found.append(max((value for value in part if value is not None), default=None))
    return found


def _bar(value: float | None, highest: float, bars: str) -> str:
    if value is None:
        return " "
    if highest <= 0:
        return bars[0]
    return bars[min(max(int(value / highest * len(bars)), 0), len(bars) - 1)]
