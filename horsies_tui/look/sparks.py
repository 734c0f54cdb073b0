"""A curve drawn as bars on a single line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST: Final = 1e-9
"""Smaller values are drawn as zero: the power of ten of the smallest floats cannot be computed."""
_MOST: Final = 1e12
"""As seconds, the longest time that can be written; larger values are drawn as this."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-:=+*#"


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
