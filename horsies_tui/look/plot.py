"""Curves on a grid of characters, drawn by plotext: each character with the number of its curve."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BRAILLE: Final = 0x2800
_DOTS: Final = 256
_PLAIN: Final = ("*", "o")
"""In ASCII each curve has its own sign."""


class Mark(NamedTuple):
    """One character; `curve` is the number of its curve, or None."""

    char: str
    curve: int | None = None


NOTHING: Final = Mark(" ")


@cache
def plotter() -> Any:
    """plotext, imported at first use: the import takes 100 to 200 ms, half of them for its own manual."""
    return import_module("plotext")


def plot(
    curves: Sequence[Sequence[float | None]], width: int, height: int, *, top: float, ascii_only: bool
) -> list[list[Mark]]:
    """Lines from the top, each `width` marks. A gap in a curve is a gap in its line; later curves cover earlier ones.

    Values range from 0 at the bottom to `top`. Each curve is drawn alone, in 1 ms at 40x8, so that it keeps its colour.
    """
    grid = [[NOTHING] * width for _ in range(height)]
    for number, values in enumerate(curves):
        sign = _PLAIN[number % len(_PLAIN)] if ascii_only else "braille"
        for line, drawn in zip(grid, _drawn(values, width, height, top, sign), strict=False):
            for x, char in enumerate(drawn[:width]):
                if char != " ":
                    line[x] = Mark(_over(char, line[x].char), number)
    return grid


def _drawn(values: Sequence[float | None], width: int, height: int, top: float, sign: str) -> list[str]:
    plotext = plotter()
    figure = plotext.figure
    # Its limit is the size of the terminal that it finds: in a test there is none, elsewhere it may be another one.
    plotext.terminal.limit(False, False)
    figure.clear.all()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.axes(False)
    for axis, limit in (("x", max(len(values) - 1, 1)), ("y", top)):
        figure.ruler(axis).lim(0, limit)
        figure.ruler(axis).frequency(0)
    for places, known in _runs(values):
        signal = figure.signal(places, known, marker=sign)
        signal.lines()
        figure.draw(signal)
    lines: list[str] = figure.build().string(colorless=True).split("\n")
    return lines[:height]


def _runs(values: Sequence[float | None]) -> Iterator[tuple[list[int], list[float]]]:
    """The parts of a curve without a gap."""
    for is_gap, run in groupby(enumerate(values), lambda place: place[1] is None):
        if not is_gap:
            known = [(place, value) for place, value in run if value is not None]
            yield [place for place, _ in known], [value for _, value in known]


def _over(char: str, below: str) -> str:
    """Where two curves meet, the dots of both."""
    dots = ord(char) - _BRAILLE, ord(below) - _BRAILLE
    return chr(_BRAILLE + (dots[0] | dots[1])) if all(0 <= dot < _DOTS for dot in dots) else char
