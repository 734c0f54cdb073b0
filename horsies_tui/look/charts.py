"""A chart as lines that can be compared: current values as text, curves or bars, and the two scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from horsies_tui.look.lines import Piece, Span, span_pieces, words
from horsies_tui.look.plot import Mark, plot
from horsies_tui.look.text import cut
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line

HEAD: Final = "chart--head"
"""The component class of a chart's first line if the cursor is on the chart."""

_SCALE: Final = 7
"""Places left of the curves, for the highest value and zero."""
_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
_TIMES: Final = tuple(size * unit for unit in (1, 60, 3_600) for size in (1, 2, 5, 10, 20, 30))
_SPARK: Final = 16
LEAST: Final = 1e-9
"""Smaller values are drawn as zero: the power of ten of the smallest floats cannot be computed."""
_MOST: Final = 1e12
"""As seconds, the longest time that can be written; larger values are drawn as this."""
_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-:=+*#"


def round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten; zero becomes 1."""
    if value < LEAST:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _STEPS if step * size >= value * (1 - 1e-9))


def round_up_time(seconds: float) -> float:
    """To a usual time: 1, 2, 5, 10, 20 or 30 seconds, minutes or hours."""
    return next((step for step in _TIMES if step >= seconds > 1), 0.0) or round_up(seconds)


@dataclass(frozen=True, slots=True)
class Curve:
    """`now` is the newest value as text; `values` are None for a gap."""

    name: str
    values: tuple[float | None, ...]
    tone: Tone
    now: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", drawable(self.values))


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart's content. `write` formats a value of the scale, which reaches up to `top`, or as far as needed.

    `rows` is the filter of the tasks that its newest values count.
    """

    title: str
    curves: tuple[Curve, ...]
    write: Callable[[float], str]
    span: str
    top: float | None = None
    round_up: Callable[[float], float] = round_up
    rows: str | None = None
    newest: str = "now"
    """The time of the newest value: now, or the last minutes."""

    @property
    def height(self) -> float:
        """The value at the top of the scale: a round number."""
        highest = max((value for curve in self.curves for value in curve.values if value is not None), default=0.0)
        return self.top if self.top is not None and highest <= self.top else self.round_up(highest)


def chart_lines(chart: Chart, width: int, height: int, glyphs: Glyphs, *, chosen: bool = False) -> list[Line]:
    """The chart at this size."""
    head, foot = _head(chart, width, glyphs, chosen=chosen), _foot(chart, width, glyphs)
    return [head, *_canvas(chart, width, max(height - 2, 0), glyphs), foot][:height]


def spark_line(chart: Chart, width: int, glyphs: Glyphs, *, chosen: bool = False) -> Line:
    """The chart on one line: the text, then the first curve as bars."""
    room = min(_SPARK, width // 3)
    curve = chart.curves[0]
    bars = spark(curve.values, room, top=chart.top, ascii_only=glyphs.ascii)
    head = _head(chart, width - room - 1, glyphs, chosen=chosen)
    return (*head, Piece(bars + " ", room + 1, (curve.tone,)))


def _head(chart: Chart, width: int, glyphs: Glyphs, *, chosen: bool) -> Line:
    """`finished/s 12.1 failed 0.2`; each name has the colour of its curve."""
    over = (HEAD,) if chosen else ()
    sign = glyphs.cursor if chosen else " "
    spans = [Span(sign, Tone.ACCENT), words(f"{chart.title} ", Tone.MUTED, glyphs)]
    for number, curve in enumerate(chart.curves):
        name = f"{'  ' if number else ''}{curve.name} " if curve.name else "  " if number else ""
        spans += [words(name, Tone.MUTED, glyphs), words(curve.now, curve.tone, glyphs)]
    return tuple(span_pieces(tuple(spans), width, glyphs, over))


def _canvas(chart: Chart, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    inner = width - _SCALE
    top = chart.height
    if inner <= 0 or height <= 0 or all(value is None for curve in chart.curves for value in curve.values):
        return _nothing(width, height, glyphs)
    grid = plot([curve.values for curve in chart.curves], inner, height, top=top, ascii_only=glyphs.ascii)
    lines = []
    for number, marks in enumerate(grid):
        label = chart.write(top) if number == 0 else "0" if number == height - 1 else ""
        scale = Piece(cut(glyphs.text(label), _SCALE - 1, glyphs).rjust(_SCALE - 1) + " ", _SCALE, (Tone.MUTED,))
        lines.append((scale, *_pieces(marks, chart)))
    return lines


def _pieces(marks: Sequence[Mark], chart: Chart) -> list[Piece]:
    pieces = []
    for curve, run in groupby(marks, lambda mark: mark.curve):
        text = "".join(mark.char for mark in run)
        pieces.append(Piece(text, len(text), () if curve is None else (chart.curves[curve].tone,)))
    return pieces


def _nothing(width: int, height: int, glyphs: Glyphs) -> list[Line]:
    blank = (Piece(" " * width, width),)
    words = cut(" " * _SCALE + "nothing is known of this time", width, glyphs).ljust(width)
    return [(Piece(words, width, (Tone.MUTED,)),) if number == height // 2 else blank for number in range(height)]


def _foot(chart: Chart, width: int, glyphs: Glyphs) -> Line:
    """`1h ago ─────── now`."""
    first, last = f"{' ' * _SCALE}{chart.span} ago ", f" {chart.newest}"
    rule = glyphs.rule * max(width - len(first) - len(last) - 1, 0)
    text = cut(f"{first}{rule}{last}", width, glyphs).ljust(width)
    return (Piece(text, width, (Tone.MUTED,)),)


def drawable(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """The values as a curve can show them: what is not a number is a gap, and values are limited to the bounds."""
    return tuple(_drawable(value) for value in values)


def _drawable(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return 0.0 if value < LEAST else min(value, _MOST)


def spark(values: Sequence[float | None], width: int, *, top: float | None = None, ascii_only: bool = False) -> str:
    """Exactly `width` places, each the highest of its values; a blank is a gap, the lowest bar is close to zero."""
    peaks = squeezed(drawable(values), width)
    highest = top if top is not None else max((peak for peak in peaks if peak is not None), default=0.0)
    return "".join(_bar(peak, highest, _PLAIN if ascii_only else _BARS) for peak in peaks)


def squeezed(values: Sequence[float | None], width: int) -> list[float | None]:
    """One value per place, the highest of those that fall into it; if there are fewer values they are right-aligned."""
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
