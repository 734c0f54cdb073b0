"""A curve in one line of a few places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST: Final = 1e-9
"""Less than this is drawn as nothing: of the smallest numbers that there are, no power of ten can be computed."""
_MOST: Final = 1e12
"""As seconds the longest time that can be written; more is drawn as this."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = "_.-:=+*#"


def drawable(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """The values as a curve can show them: what is not a number is a gap, what is out of all bounds stands at them."""
    return tuple(_drawable(value) for value in values)


def _drawable(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return 0.0 if value < LEAST else min(value, _MOST)


def spark(values: Sequence[float | None], width: int, *, top: float | None = None, ascii_only: bool = False) -> str:
    """Exactly `width` places, the highest value of each; a blank is a gap, the lowest bar is next to nothing."""
    peaks = squeezed(drawable(values), width)
    highest = top if top is not None else max((peak for peak in peaks if peak is not None), default=0.0)
    return "".join(_bar(peak, highest, _PLAIN if ascii_only else _BARS) for peak in peaks)


def squeezed(values: Sequence[float | None], width: int) -> list[float | None]:
    """As many values as there are places, each the highest that falls into it; fewer of them stand at the right."""
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
