"""The cursor's position in a list: `12 / 2,772`, `↓ 4 more`, and a thin scrollbar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies_tui.look.units import number

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Extent:
    """The position of the loaded rows in the whole list."""

    before: int | None = 0
    """Rows before the first loaded one; None: it is not known how many."""
    total: int | None = None
    """Rows of the whole list; None: those that are loaded."""
    at_least: bool = False
    """There may be more than `total`."""

    def whole(self, loaded: int) -> int:
        """Counts are older than rows: there are at least as many as are loaded."""
        return max(self.total or 0, (self.before or 0) + loaded)


WHOLE = Extent()
"""All rows are loaded."""


def position(index: int | None, loaded: int, extent: Extent, glyphs: Glyphs) -> str:
    """`12 / 2,772`; the first number is missing if no row is chosen, or if it is not known."""
    total = f"{number(extent.whole(loaded))}{'+' if extent.at_least else ''}"
    if index is None:
        return total
    here = glyphs.ellipsis if extent.before is None else number(extent.before + index + 1)
    return f"{here} / {total}"


def more_below(count: int, glyphs: Glyphs) -> str:
    return f"{glyphs.down} {number(count)} more" if count > 0 else ""


def scrollbar(top: int, view: int, loaded: int, extent: Extent, height: int) -> range | None:
    """The lines of the thumb on a bar of this height; None if all is in view, or if the place is not known."""
    whole = extent.whole(loaded)
    if extent.before is None or height < 1 or view >= whole:
        return None
    size = max(round(height * view / whole), 1)
    above = extent.before + top
    start = round((height - size) * above / (whole - view))
    # Only the ends of the list are shown as its ends.
    if 0 < above < whole - view:
        start = min(max(start, 1), max(height - size - 1, 1))
    return range(min(start, height - size), min(start, height - size) + size)
