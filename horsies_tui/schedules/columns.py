"""The columns of the list of schedules, and its orders."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from horsies.views import Standing
from horsies.views.schedules import note, sends
from horsies_tui.look.cells import EMPTY, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, length, number, ticking
from horsies_tui.schedules.schedule_texts import countdown, sign, strip, tone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from horsies.views import ScheduleRow

_STRIP, _LEAST_STRIP = 12, 8


class ScheduleSort(StrEnum):
    TROUBLE = "trouble"
    NAME = "name"
    NEXT = "next"
    LAST = "last"

    @property
    def moves(self) -> bool:
        """True if the sort value changes with each run."""
        return self in (ScheduleSort.NEXT, ScheduleSort.LAST)


SORT_WORDS: Final[Mapping[ScheduleSort, str]] = {
    ScheduleSort.TROUBLE: "trouble first",
    ScheduleSort.NAME: "by name",
    ScheduleSort.NEXT: "next run first",
    ScheduleSort.LAST: "last run first",
}
SORT_HELP: Final[Mapping[ScheduleSort, tuple[str, str]]] = {
    ScheduleSort.TROUBLE: ("t", "overdue, unserved, paused, the others by name"),
    ScheduleSort.NAME: ("n", "in alphabetical order"),
    ScheduleSort.NEXT: ("x", "by the time until their next run"),
    ScheduleSort.LAST: ("l", "by the time since their last run"),
}
_STANDINGS: Final = tuple(Standing)


def in_order(rows: Iterable[ScheduleRow], sort: ScheduleSort, now: datetime) -> tuple[ScheduleRow, ...]:
    keys: dict[ScheduleSort, Callable[[ScheduleRow], Any]] = {
        ScheduleSort.TROUBLE: lambda row: _STANDINGS.index(row.standing(now)),
        ScheduleSort.NAME: lambda _row: 0,
        ScheduleSort.NEXT: lambda row: (row.paused_at is not None, row.next_run_at or now),
        ScheduleSort.LAST: lambda row: (row.last is None, row.last and now - row.last.sent_at),
    }
    return tuple(sorted(rows, key=lambda row: (keys[sort](row), row.name)))


def _state(row: ScheduleRow, look: Look) -> Cell:
    standing = row.standing(look.now)
    signed = sign(standing, look.glyphs)
    return Cell(f"{signed} {standing}", tone(standing), signed)


def _sends(row: ScheduleRow, _look: Look) -> Cell:
    return Cell(sends(row.definition), Tone.MUTED)


def _when(row: ScheduleRow, _look: Look) -> Cell:
    """Return the pattern, without its zone if there is little room."""
    definition = row.definition
    if definition is None:
        return EMPTY
    pattern = definition.pattern
    return Cell(definition.words, None, definition.words if pattern is None else pattern.words())


def _next(row: ScheduleRow, look: Look) -> Cell:
    shown = tone(row.standing(look.now)) or (Tone.WARNING if row.skips_next else None)
    return Cell(countdown(row, look.now), shown)


def _last(row: ScheduleRow, look: Look) -> Cell:
    sent_at = row.last_run_at if row.last is None else row.last.sent_at
    return EMPTY if sent_at is None else Cell(age(look.now - sent_at), Tone.MUTED)


def _runs(row: ScheduleRow, look: Look) -> Cell:
    text, tones = strip(row.runs[:_STRIP], look.glyphs)
    return Cell(text, None, text[-_LEAST_STRIP:], tones) if text else EMPTY


def _took(row: ScheduleRow, look: Look) -> Cell:
    last = row.last
    if last is None:
        return EMPTY
    took = last.duration(look.now)
    return Cell(ticking(took), Tone.RUNNING) if last.ended_at is None else Cell(length(took))


def _count(row: ScheduleRow, _look: Look) -> Cell:
    return Cell(number(row.run_count)) if row.run_count else EMPTY


def _note(row: ScheduleRow, look: Look) -> Cell:
    shown = tone(row.standing(look.now)) or (Tone.FAILED if row.skip_slot is None else Tone.WARNING)
    return Cell(look.glyphs.text(note(row, look.now, ticking)), shown)


SCHEDULE_COLUMNS: Final[ColumnSet[ScheduleRow]] = ColumnSet(
    (
        Column("state", "STATE", _state, 3, 11, brief="ST"),
        Column("name", "SCHEDULE", lambda row, _look: Cell(row.name), 12, 16, grow=3),
        Column("sends", "SENDS", _sends, 12, 16, grow=2, priority=1),
        Column("when", "WHEN", _when, 11, 20, grow=3),
        Column("next", "NEXT IN", _next, 8, right=True),
        Column("last", "LAST", _last, 4, right=True),
        Column("runs", "LAST RUNS", _runs, _LEAST_STRIP, _STRIP, right=True, brief="RUNS"),
        Column("took", "DURATION", _took, 5, whole=8, right=True, brief="TIME"),
        Column("count", "RUNS", _count, 5, priority=2, right=True),
        Column("note", "NOTE", _note, 9, 16, grow=3),
    ),
    kind="schedule",
)
