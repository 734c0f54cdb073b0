"""The rows of the activity screen: operations and changes in one list by their time; the targets of an operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.quantities import counted
from horsies_tui.look.cells import EMPTY, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import age, number, time_of_day

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, tzinfo

    from horsies.views import AuditRow, Change, OperationRow

_ID: Final = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation, or a change: one of the two. `when` is its time as it is shown."""

    id: str
    at: datetime
    when: str
    operation: OperationRow | None = None
    change: Change | None = None


def entries(
    operations: Iterable[OperationRow], changes: Iterable[Change], now: datetime, zone: tzinfo | None
) -> tuple[Entry, ...]:
    """Newest first; of the same moment operations before changes."""
    found = [Entry(str(row.operation_id), row.acted_at, _when(row.acted_at, now, zone), row) for row in operations]
    found += [Entry(row.id, row.at, _when(row.at, now, zone), change=row) for row in changes]
    return tuple(sorted(found, key=lambda entry: entry.at, reverse=True))


def _when(at: datetime, now: datetime, zone: tzinfo | None) -> str:
    """`11:52:10Z`; of another day `Nov 17 21:02`."""
    there = at.astimezone(zone)
    return time_of_day(at, zone) if there.date() == now.astimezone(zone).date() else f"{there:%b %d %H:%M}"


def target_of(operation: OperationRow) -> str:
    """`49 tasks`, `queue mail`, `task …1cd6ba9a`."""
    kind = operation.kinds[0] if len(operation.kinds) == 1 else "target"
    if operation.targets > 1:
        several = counted(operation.targets, kind)
        return several.replace(" ", " or more ", 1) if operation.at_least else several
    return f"{kind} {_short(operation.target_id) if kind in ('task', 'workflow') else operation.target_id}"


def _short(text: str) -> str:
    return text if len(text) <= _ID + 1 else f"…{text[-_ID:]}"


def outcome_of(operation: OperationRow) -> str:
    """`45 applied, 4 refused, undone`; of a single target `applied`; until all of its rows are counted, that."""
    if operation.at_least:
        return "counting…"
    if operation.targets == 1:
        return "undone" if operation.undone else "applied" if operation.applied else "refused"
    parts = [f"{number(operation.applied)} applied"] if operation.applied or not operation.refused else []
    parts += [f"{number(operation.refused)} refused"] if operation.refused else []
    if operation.undone:
        parts.append("undone" if operation.undone == operation.applied else f"{number(operation.undone)} undone")
    return ", ".join(parts)


_STATES: Final = {"failed": "FAILED", "cancelled": "CANCELLED", "expired": "EXPIRED"}


def _who(entry: Entry, look: Look) -> Cell:
    if entry.operation is None:
        return Cell(look.glyphs.dash, Tone.MUTED)
    return Cell(entry.operation.who, None, entry.operation.os_user or "?")


def _what(entry: Entry, look: Look) -> Cell:
    if entry.operation is not None:
        return Cell(entry.operation.verb, Tone.STRONG)
    assert entry.change is not None
    what = entry.change.what
    if (state := _STATES.get(what)) is not None:
        return Cell(look.glyphs.state_text(state), state_tone(state))
    tone = {"lost": Tone.BAD, "died": Tone.BAD, "outage": Tone.BAD, "recovered": Tone.WARNING}.get(what, Tone.MUTED)
    sign = look.glyphs.dot if tone is Tone.MUTED else look.glyphs.alarm
    return Cell(f"{sign} {what}", tone)


def _target(entry: Entry, look: Look) -> Cell:
    if entry.operation is not None:
        return Cell(target_of(entry.operation))
    assert entry.change is not None
    many = f" {look.glyphs.times}{number(entry.change.count)}" if entry.change.count > 1 else ""
    return Cell(f"{entry.change.kind} {entry.change.name}{many}", None, f"{entry.change.name}{many}")


def _outcome(entry: Entry, _look: Look) -> Cell:
    operation = entry.operation
    if operation is None:
        return Cell(entry.change.detail if entry.change else "", Tone.MUTED)
    tone = Tone.WARNING if operation.refused else Tone.MUTED
    return Cell(outcome_of(operation), Tone.MUTED if operation.undone == operation.applied > 0 else tone)


def _reason(entry: Entry, _look: Look) -> Cell:
    return EMPTY if entry.operation is None else Cell(entry.operation.reason or "")


def _role(entry: Entry, _look: Look) -> Cell:
    return EMPTY if entry.operation is None else Cell(entry.operation.db_role, Tone.MUTED)


ENTRY_COLUMNS: Final[ColumnSet[Entry]] = ColumnSet(
    (
        Column("when", "WHEN", lambda entry, _look: Cell(entry.when, Tone.MUTED), 9, grow=1),
        Column("ago", "AGO", lambda entry, look: Cell(age(look.now - entry.at), Tone.MUTED), 4, priority=1, right=True),
        Column("who", "WHO", _who, 6, 11, grow=2),
        Column("what", "WHAT", _what, 11, 11, grow=1),
        Column("target", "TARGET", _target, 14, 22, grow=4),
        Column("outcome", "OUTCOME", _outcome, 14, 24, grow=4),
        Column("role", "ROLE", _role, 8, 20, priority=3, grow=1),
        Column("reason", "REASON", _reason, 10, 20, grow=6, priority=2),
    ),
    kind="operation",
)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One target of an operation."""

    id: str
    action: AuditRow


def _result(row: TargetRow, look: Look) -> Cell:
    if row.action.undone_by is not None:
        return Cell("undone", Tone.MUTED)
    if row.action.outcome == "applied":
        return Cell(f"{look.glyphs.dot} applied")
    return Cell(f"{look.glyphs.alarm} {row.action.outcome}", Tone.WARNING)


def _before_and_after(row: TargetRow, _look: Look) -> Cell:
    before, after = state_words(row.action.before_state), state_words(row.action.after_state)
    if row.action.detail:
        return Cell(row.action.detail, Tone.WARNING)
    return Cell(f"{before} → {after}" if before and after else after or before)


def state_words(state: Mapping[str, Any] | None) -> str:
    """`FAILED, try 4`; `paused`, `not paused`; of a copy, its id."""
    if not state:
        return ""
    if "status" in state:
        tries = f", try {state['retry_count'] + 1}" if state.get("retry_count") is not None else ""
        return f"{state['status']}{tries}"
    words = []
    for key, value in state.items():
        name, _, time = key.rpartition("_")
        if time in ("at", "since"):
            words.append(name if value is not None else f"not {name}")
        else:
            words.append(f"{key.replace('_', ' ')} {value}")
    return ", ".join(words)


TARGET_COLUMNS: Final[ColumnSet[TargetRow]] = ColumnSet(
    (
        Column("outcome", "OUTCOME", _result, 10),
        Column("kind", "KIND", lambda row, _look: Cell(row.action.target_kind, Tone.MUTED), 8),
        Column("target", "TARGET", lambda row, _look: Cell(row.action.target_id), 12, 36, grow=2, keep_end=True),
        Column("verb", "VERB", lambda row, _look: Cell(row.action.verb), 8, priority=2, grow=1),
        Column("states", "BEFORE → AFTER", _before_and_after, 20, 30, grow=3),
    ),
    kind="operation",
)
