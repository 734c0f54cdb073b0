"""Curves on a grid of characters: filled areas, bands and lines in braille dots or in ASCII, with gaps."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BRAILLE: Final = 0x2800
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of the dots of one character: four rows of two."""
_FULL: Final = "⣿"
_STIPPLE: Final = ((0, 0), (1, 2))
"""The dots of a band: too few to be confused with an area on a terminal without colours."""
_EDGES: Final = "*o"
"""The sign of each curve in ASCII."""


class Fill(Enum):
    """The style of a curve. Two curves of one chart differ without colours, too."""

    AREA = auto()
    """All dots below the curve."""
    BAND = auto()
    """The curve and a few dots below it, so that the area of another curve can lie within it."""
    LINE = auto()
    """Only the curve."""


class Mark(NamedTuple):
    """One character. `curve` is the number of its curve, or None; `inner` is true below the curve."""

    char: str
    curve: int | None = None
    inner: bool = False


NOTHING: Final = Mark(" ")


class _DotGrid:
    """A grid with `across` by `down` dots per character."""

    def __init__(self, width: int, height: int, *, ascii_only: bool) -> None:
        self.across, self.down = (1, 1) if ascii_only else (2, 4)
        self.columns, self.levels = width * self.across, height * self.down
        self._ascii = ascii_only
        self.cells = [[NOTHING] * width for _ in range(height)]

    def put(self, x: int, level: int, curve: int, fill: Fill, *, inner: bool) -> None:
        """Set the dot of this column, `level` dots above the lowest."""
        down = self.levels - 1 - level
        line, at = self.cells[down // self.down], x // self.across
        if self._ascii:
            char = ":" if fill is Fill.AREA else "."
            line[at] = Mark(char if inner else _EDGES[curve % len(_EDGES)], curve, inner)
            return
        before = line[at]
        dots = _DOTS[down % self.down][x % self.across]
        # A line through an area stays visible without colours only if the dots around it go.
        if fill is not Fill.LINE or before.curve == curve:
            dots |= _dots(before.char)
        line[at] = Mark(chr(_BRAILLE | dots), curve, inner)


def plot(
    curves: Sequence[tuple[Sequence[float | None], Fill]], width: int, height: int, *, top: float, ascii_only: bool
) -> list[list[Mark]]:
    """Return lines from the top, each of `width` marks. Earlier curves cover later ones. Values are 0 to `top`."""
    grid = _DotGrid(width, height, ascii_only=ascii_only)
    drawn = [(number, fill, _levels(values, grid, top)) for number, (values, fill) in enumerate(curves)]
    for wanted in (Fill.BAND, Fill.AREA):
        for number, fill, levels in drawn:
            if fill is wanted:
                _fill(grid, number, fill, levels)
    for number, fill, levels in reversed(drawn):
        for x, level in _edge(levels):
            grid.put(x, level, number, fill, inner=False)
    return grid.cells


def _fill(grid: _DotGrid, number: int, fill: Fill, levels: Sequence[int | None]) -> None:
    """Set all dots below the curve, whole characters at once, because they make up most of an area."""
    whole = Mark(":" if grid.across == 1 else _FULL, number, inner=True)
    for first in range(0, len(levels), grid.across):
        columns = levels[first : first + grid.across]
        full = min(level or 0 for level in columns) // grid.down if fill is Fill.AREA else 0
        for line in range(full):
            grid.cells[-1 - line][first // grid.across] = whole
        for x, level in enumerate(columns, first):
            for below in range(full * grid.down, level or 0):
                if fill is Fill.AREA or grid.across == 1 or _is_stippled(x, below):
                    grid.put(x, below, number, fill, inner=True)


def place_of(number: int, count: int, width: int) -> int:
    """Return the column in which the middle of this value is drawn, of `count` values on `width` columns."""
    return min(int((number + 0.5) * width / max(count, 1)), width - 1)


def sampled(values: Sequence[float | None], columns: int) -> list[float | None]:
    """Return one value per column, each value equally wide. A column with several values shows the highest, so that no
    peak is lost; values are connected by straight lines.
    """
    count = len(values)
    if count >= columns:
        parts = (values[at * count // columns : (at + 1) * count // columns] for at in range(columns))
        return [max((value for value in part if value is not None), default=None) for part in parts]
    return [_between(values, (at + 0.5) * count / columns) for at in range(columns)]


def _between(values: Sequence[float | None], place: float) -> float | None:
    """Return the value at a position; the middle of the first value is 0.5."""
    here = values[int(place)]
    if here is None:
        return None
    share = place - int(place) - 0.5
    beside = int(place) + (1 if share > 0 else -1)
    other = values[beside] if 0 <= beside < len(values) else None
    return here if other is None else here + (other - here) * abs(share)


def _levels(values: Sequence[float | None], grid: _DotGrid, top: float) -> list[int | None]:
    """Return the highest dot of each column. Zero is the lowest dot, because a column without a dot is a gap."""
    most = grid.levels - 1
    return [
        None if value is None else min(max(round(value / top * most), 0), most)
        for value in sampled(values, grid.columns)
    ]


def _edge(levels: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Return the dots of the curve itself; a step is drawn in the higher of its two columns."""
    for x, level in enumerate(levels):
        if level is None:
            continue
        beside = [levels[at] for at in (x - 1, x + 1) if 0 <= at < len(levels)]
        lowest = min((other + 1 for other in beside if other is not None), default=level)
        yield from ((x, dot) for dot in range(min(lowest, level), level + 1))


def _is_stippled(x: int, level: int) -> bool:
    return (x % 2, level % 4) in _STIPPLE


def _dots(char: str) -> int:
    return ord(char) - _BRAILLE if char >= chr(_BRAILLE) else 0
