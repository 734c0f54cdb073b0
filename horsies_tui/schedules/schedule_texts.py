"""Texts about schedules: their state, their next run, the sums of all of them, and why the list is empty."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies.domain.quantities import counted
from horsies.views import Standing
from horsies.views.schedules import NO_SCHEDULER, TEACHES, served_by
from horsies_tui.feed.status import not_connected
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import age, number, ticking
from horsies_tui.widgets.chips_line import Chip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from horsies.views import ScheduleRow, ScheduleRun, Schedules
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.schedules.feed import SchedulesSnapshot

_SECOND: Final = timedelta(seconds=1)
_TONES: Final = {
    Standing.OVERDUE: Tone.BAD,
    Standing.UNSERVED: Tone.WARNING,
    Standing.PAUSED: Tone.INTERRUPTED,
    Standing.SCHEDULED: None,
}


def tone(standing: Standing) -> Tone | None:
    return _TONES[standing]


def sign(standing: Standing, glyphs: Glyphs) -> str:
    match standing:
        case Standing.OVERDUE:
            return glyphs.alarm
        case Standing.UNSERVED:
            return glyphs.warning
        case Standing.PAUSED:
            return glyphs.state("PAUSED")
        case Standing.SCHEDULED:
            return glyphs.dot


def countdown(row: ScheduleRow, now: datetime) -> str:
    """`45s`, `4m10s`; `now` once it is due, `6m late` if that is a problem; empty while it is paused."""
    if row.paused_at is not None:
        return ""
    if (late := row.overdue(now)) is not None:
        return f"{age(late)} late"
    left = None if row.next_run_at is None else row.next_run_at - now
    return "now" if left is None or left < _SECOND else ticking(left)


def strip(runs: Iterable[ScheduleRun], glyphs: Glyphs) -> tuple[str, tuple[Tone | None, ...]]:
    """A sign for each run, the newest at the right, and their tones."""
    in_order = tuple(runs)[::-1]
    signs = (glyphs.state(run.state) for run in in_order)
    # The sign of an expired task takes two places.
    text = "".join(one if cell_len(one) == 1 else glyphs.alarm for one in signs)
    return text, tuple(state_tone(run.state) for run in in_order)


def summary(found: Schedules, rows: Sequence[ScheduleRow], now: datetime, glyphs: Glyphs) -> list[Chip]:
    """`no scheduler runs`, `12 schedules`, and how many are overdue, unserved or paused."""
    chips = []
    if not found.living(now) and any(row.definition is not None for row in found.rows):
        text = f"{glyphs.alarm} {NO_SCHEDULER}"
        chips.append(Chip(text, f"{glyphs.alarm} no scheduler", Tone.BAD))
    chips.append(Chip(counted(len(rows), "schedule"), counted(len(rows), "schedule"), Tone.STRONG))
    standings = [row.standing(now) for row in rows]
    for standing in Standing:
        if count := standings.count(standing):
            text = f"{sign(standing, glyphs)} {number(count)} {standing}"
            chips.append(Chip(text, text, tone(standing) or Tone.MUTED))
    return chips


def schedulers(found: Schedules, now: datetime) -> str:
    """`1 scheduler, web-1:4121`; empty if none runs, which the summary says."""
    living = found.living(now)
    return served_by(living) if living else ""


def empty(snapshot: SchedulesSnapshot, *, filtered: bool, status: LinkStatus, now: datetime) -> str:
    """Shown in place of rows: why there are none, and the next step."""
    if snapshot.found is None:
        if not status.is_up:
            return not_connected(status, now)
        return f"Nothing to show:\n{snapshot.error}" if snapshot.error else "Reading…"
    if filtered and snapshot.rows:
        return f"No schedule of {number(len(snapshot.rows))} matches. esc clears the filter."
    first, *others = TEACHES
    return "\n".join((f"{first[0].upper()}{first[1:]}.", *(line.replace("`", "") for line in others)))
