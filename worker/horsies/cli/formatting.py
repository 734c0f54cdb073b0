"""States, ids, times and numbers as lists show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from horsies.cli.tables import Cell, clean
from horsies.operations.formatting import span

if TYPE_CHECKING:
    from datetime import timedelta

    from horsies.cli.tables import Screen
    from horsies.views import Count

_STATES: Final = {
    "PENDING": ("·", ".", ""),
    "CLAIMED": ("◔", "o", "cyan"),
    "RUNNING": ("▶", ">", "blue"),
    "COMPLETED": ("✓", "+", "green"),
    "FAILED": ("✗", "x", "red"),
    "CANCELLED": ("⊘", "-", "dim"),
    "EXPIRED": ("⌛", "!", "yellow"),
    "RETRY": ("↻", "~", "yellow"),
    "INTERRUPTED": ("⏸", "=", "magenta"),
    # Of workflows and their nodes; no list shows them beside a state of a task that looks alike.
    "READY": ("○", "o", ""),
    "ENQUEUED": ("◔", "o", "cyan"),
    "SKIPPED": ("⊘", "-", "dim"),
    "PAUSED": ("⏸", "=", "magenta"),
}
_WHOLE: Final = 12
_END: Final = 8


def state(name: str, screen: Screen, more: str = "") -> Cell:
    """Glyph and word: the colour says nothing that they do not."""
    unicode, ascii_only, style = _STATES.get(name, ("?", "?", ""))
    return Cell(f"{screen.glyph(unicode, ascii_only)} {name.lower()}{more}", style)


def short(task_id: str, screen: Screen) -> str:
    """The end of an id, which tells two of them apart: they begin with the time. Whole where nothing is cut."""
    if screen.width is None or len(task_id) <= _WHOLE:
        return clean(task_id)
    return screen.glyph("…", "...") + clean(task_id[-_END:])


def unshortened(text: str) -> str:
    """What was meant by an id that was copied from a list."""
    return text.removeprefix("…").removeprefix("...")


def lasting(length: timedelta | None) -> str:
    """8ms, 0.4s, 12s, 2m04s, 3h05m; nothing for what there is not."""
    if length is None:
        return ""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 0.1:
        return f"{int(seconds * 1000)}ms"
    return f"{int(seconds * 10) / 10:.1f}s" if seconds < 10 else span(seconds)


def ago(moment: datetime | None, now: datetime) -> str:
    """How long it has been, or with a plus how long it will be."""
    if moment is None:
        return ""
    return f"+{lasting(moment - now)}" if moment > now else lasting(now - moment)


def at(moment: datetime, now: datetime) -> str:
    """The time in UTC, and how far away it is."""
    far = f"in {lasting(moment - now)}" if moment > now else f"{lasting(now - moment)} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z  {far}"


def number(count: int) -> str:
    return f"{count:,}"


def counted(count: Count) -> str:
    return f"{number(count.number)}+" if count.at_least else number(count.number)


def at_least(count: Count) -> str:
    """Where a sentence has room for the words."""
    return f"at least {number(count.number)}" if count.at_least else number(count.number)


def rows(count: int, noun: str) -> str:
    """1 task, 12 tasks, 1,204 tasks."""
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"
