"""The format of states, ids, times and numbers in lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from horsies.display.terminal import TableCell
from horsies.domain.damage import Damaged, damaged_fields, plain_stored
from horsies.domain.plain_text import clean
from horsies.domain.quantities import span

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from horsies.display.terminal import Screen
    from horsies.views import Count

_STATES: Final = {
    "PENDING": ("·", ".", ""),
    "CLAIMED": ("◔", "o", "cyan"),
    "RUNNING": ("▶", ">", "blue"),
    "COMPLETED": ("✓", "+", "green"),
    "FAILED": ("✗", "x", "red"),
    "CANCELLED": ("⊘", "-", "dim"),
    "EXPIRED": ("†", "!", "yellow"),
    "RETRY": ("↻", "~", "yellow"),
    "INTERRUPTED": ("‖", "=", "bright_red"),
    # Of workflows and their nodes; no list shows them beside a task state with the same glyph.
    "READY": ("○", "o", ""),
    "ENQUEUED": ("◔", "o", "cyan"),
    "SKIPPED": ("⊘", "-", "dim"),
    "PAUSED": ("‖", "=", "bright_red"),
    # Of runs of a schedule whose task is not stored any more.
    "PRUNED": ("∅", "_", "dim"),
}
_WHOLE: Final = 12
_MOST_DAMAGED: Final = 10
_NAMES: Final = ("id", "operation_id", "label", "name", "attempt")
"""Of these a row has one that says which it is."""
_END: Final = 8


def state(name: str, screen: Screen, more: str = "") -> TableCell:
    """Glyph and word: the colour adds no information."""
    unicode, ascii_only, style = _STATES.get(name, ("?", "?", ""))
    return TableCell(f"{screen.glyph(unicode, ascii_only)} {name.lower()}{more}", style)


def short(task_id: str, screen: Screen) -> str:
    """The end of an id, which distinguishes it: ids begin with the time. The whole id if nothing is cut."""
    if screen.width is None or len(task_id) <= _WHOLE:
        return clean(task_id)
    return screen.glyph("…", "...") + clean(task_id[-_END:])


def lasting(length: timedelta | None) -> str:
    """8ms, 0.4s, 12s, 2m04s, 3h05m; empty for None."""
    if length is None:
        return ""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 0.1:
        return f"{int(seconds * 1000)}ms"
    return f"{int(seconds * 10) / 10:.1f}s" if seconds < 10 else span(seconds)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago it was, or with a plus how long it will take."""
    if moment is None:
        return ""
    if isinstance(moment, Damaged):
        return moment.stored
    return f"+{lasting(moment - now)}" if moment > now else lasting(now - moment)


def at(moment: datetime, now: datetime) -> str:
    """The time in UTC, and the distance from now."""
    if isinstance(moment, Damaged):
        return moment.stored
    far = f"in {lasting(moment - now)}" if moment > now else f"{lasting(now - moment)} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z  {far}"


def damage_lines(rows: Iterable[object], screen: Screen) -> list[str]:
    """A line for each damaged row of a list, the first few, and how many others there are."""
    found = [(row, damage) for row in rows if (damage := damaged_fields(row))]
    lines: list[str] = []
    for row, damage in found[:_MOST_DAMAGED]:
        name = next(getattr(row, key) for key in _NAMES if hasattr(row, key))
        # A text may hold arguments that are masked elsewhere; `--json` of the row has it.
        parts = ", ".join(f"{field} is {plain_stored(stored) or 'not of its type'}" for field, stored in damage.items())
        lines.append(clean(f"damaged: {name}: {parts}"))
    more = len(found) - _MOST_DAMAGED
    lines += [f"damaged: {number(more)} more"] if more > 0 else []
    return [screen.paint(line, "red") for line in lines]


def number(count: int) -> str:
    return f"{count:,}"


def count_text(count: Count) -> str:
    return f"{number(count.number)}+" if count.at_least else number(count.number)


def at_least(count: Count) -> str:
    """Format a count for sentences, which have room for the words."""
    return f"at least {number(count.number)}" if count.at_least else number(count.number)
