"""The progress of a run as a bar with its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.units import ticking

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from horsies.views import Progress
    from horsies.views.progress import ProgressWords
    from horsies_tui.look.glyphs import Glyphs

LIST_EVERY_S: Final = 5.0
"""In lists a row's progress advances this often: each second on 40 rows would be 4 kB/s over SSH."""
_TEN: Final = 10


def progress_words(progress: Progress, now: datetime) -> ProgressWords:
    return progress.words(now, ticking)


def steady_words(progress: Progress, now: datetime) -> ProgressWords:
    """Return the words for lists: the time left is that at the report, so that they change only with a report."""
    return progress.words(now if progress.is_stale(now) else progress.reported_at, _coarse)


def share_bar(share: float, places: int, glyphs: Glyphs) -> str:
    """Full only if all is done, and never empty once something is."""
    full = min(int(share * places), places)
    signs = ("=", ".") if glyphs.ascii else ("━", "─")
    return signs[0] * full + signs[1] * (places - full)


def _coarse(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    return f"{seconds // _TEN * _TEN}s" if _TEN <= seconds < 60 else ticking(span)
