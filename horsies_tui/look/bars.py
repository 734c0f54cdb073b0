"""Thin bars: the parts of a whole, a task's progress, the position in a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies_tui.look.tones import Tone
from horsies_tui.look.units import number, ticking

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from horsies.views import Progress
    from horsies.views.progress import ProgressWords
    from horsies_tui.look.glyphs import Glyphs


_SIGNS: Final = {
    Tone.COMPLETED: ("━", "="),
    Tone.FAILED: ("╳", "x"),
    Tone.CANCELLED: ("╌", "-"),
    Tone.RUNNING: ("┅", ">"),
    Tone.PENDING: ("─", "."),
}
"""Signs of the parts in their order: succeeded, failed, skipped, running, waiting."""


def shares(counts: Sequence[int], places: int) -> list[int]:
    """Divide the cells among the counts. Each count above zero gets at least one cell if there are enough."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    given = [max(count * places // total, min(count, 1)) for count in counts]
    for _ in range(sum(given), places):
        at = max(range(len(counts)), key=lambda each: counts[each] * places / total - given[each])
        given[at] += 1
    while sum(given) > places:
        at = max(range(len(counts)), key=lambda each: given[each])
        given[at] -= 1
    return given


def bar_parts(counts: Iterable[tuple[Tone, int]], places: int, glyphs: Glyphs) -> tuple[tuple[str, Tone], ...]:
    """Return the parts of the bar. If all counts are zero, it looks as if everything were waiting."""
    found = [*counts]
    given = shares([count for _, count in found], places)
    parts = [(tone, size) for (tone, _), size in zip(found, given, strict=True) if size]
    return tuple((_SIGNS[tone][glyphs.ascii] * size, tone) for tone, size in parts or [(Tone.PENDING, places)])


LIST_EVERY_S: Final = 5.0
"""Interval at which the progress of a row advances in lists; every second, 40 rows would send 4 kB/s over SSH."""
_TEN: Final = 10


def progress_words(progress: Progress, now: datetime) -> ProgressWords:
    return progress.words(now, ticking)


def steady_words(progress: Progress, now: datetime) -> ProgressWords:
    """Return the text for lists. The remaining time is as of the last report, so it changes only with a report."""
    return progress.words(now if progress.is_stale(now) else progress.reported_at, _coarse)


def share_bar(share: float, places: int, glyphs: Glyphs) -> str:
    """Return a bar that is full only at 100 %, and never empty above 0 %."""
    full = min(int(share * places), places)
    signs = ("=", ".") if glyphs.ascii else ("━", "─")
    return signs[0] * full + signs[1] * (places - full)


def _coarse(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    return f"{seconds // _TEN * _TEN}s" if _TEN <= seconds < 60 else ticking(span)


@dataclass(frozen=True, slots=True)
class Extent:
    """The position of the loaded rows in the whole list."""

    before: int | None = 0
    """Number of rows before the first loaded one; None if it is unknown."""
    total: int | None = None
    """Number of rows of the whole list; None if only the loaded rows are known."""
    at_least: bool = False
    """True if there may be more than `total` rows."""

    def whole(self, loaded: int) -> int:
        """Return the number of rows of the list. Counts are older than rows, so it is at least the number of loaded
        rows.
        """
        return max(self.total or 0, (self.before or 0) + loaded)


WHOLE = Extent()
"""All rows are loaded."""


def position(index: int | None, loaded: int, extent: Extent, glyphs: Glyphs) -> str:
    """Return a text like `12 / 2,772`. The first number is missing if no row is selected, or if it is unknown."""
    total = f"{number(extent.whole(loaded))}{'+' if extent.at_least else ''}"
    if index is None:
        return total
    here = glyphs.ellipsis if extent.before is None else number(extent.before + index + 1)
    return f"{here} / {total}"


def more_below(count: int, glyphs: Glyphs) -> str:
    return f"{glyphs.down} {number(count)} more" if count > 0 else ""


def scrollbar(top: int, view: int, loaded: int, extent: Extent, height: int) -> range | None:
    """Return the first and last line of the thumb on a bar of this height; None if all rows are in view or the position
    is unknown.
    """
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
