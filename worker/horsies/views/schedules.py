"""The schedules: what each sends and when, its newest runs, and the schedulers that serve it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.config.schedule import IntervalSchedule, SchedulePattern, stored_pattern
from horsies.domain.damage import Damaged, DamagedText, is_whole, json_map, texts
from horsies.domain.quantities import counted
from horsies.domain.schedule_times import calculate_next_run, next_slot, zone_named
from horsies.store.statements import statement
from horsies.views.audit import audit_page
from horsies.views.reader_session import aware, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.config.schedule import SchedulePattern
    from horsies.views.audit import AuditRow
    from horsies.views.reader_session import Tables

OVERDUE_AFTER_S: Final = 60.0
"""Seconds after which a run is overdue, or twice the interval of its scheduler if that is longer."""
SEEN_WITHIN_S: Final = 60.0
"""Silence in s of a lost scheduler: rows are renewed every 5 s; horsies.operations uses the same value."""
MOST_SCHEDULES: Final = 2_000
STRIP_RUNS: Final = 12
"""Number of newest runs of each schedule in a list."""
STORY_RUNS: Final = 50
_MAX_SCHEDULERS: Final = 200
_LISTED_FOR: Final = timedelta(days=1)
"""How long a lost scheduler is listed with the schedules."""
_MAX_ACTIONS: Final = 10

_AT_ONCE: Final = timedelta()
_MAX_S: Final = 366 * 86_400.0
_TEXTS: Final = ("timezone", "kind", "target", "queue", "args", "kwargs")
_FAILED: Final = frozenset({"FAILED", "INTERRUPTED", "EXPIRED", "CANCELLED"})
_SOURCES: Final = {"names": "view_schedule_names", "rows": "view_schedule_rows", "slots": "view_used_slots"}
_SOURCES_OF_UPSTREAM: Final = {
    "names": "view_schedule_names_of_upstream",
    "rows": "view_schedule_rows_of_upstream",
    "slots": "view_used_slots_of_upstream",
}
"""The names of the statements for a database of upstream, which lacks our tables."""

START: Final = "`horsies scheduler MODULE` or `horsies worker MODULE --with-scheduler` starts one"
NO_SCHEDULER: Final = "no scheduler runs, so nothing is sent"
TEACHES: Final = (
    "no schedule is stored here",
    "Schedules are defined in AppConfig(schedule=ScheduleConfig(schedules=[TaskSchedule(…)])). A scheduler stores them",
    f"and sends their tasks: {START}.",
)
_UNDEFINED: Final = "its scheduler has not stored what it sends: upstream's and older releases do not"


class ScheduleRun(NamedTuple):
    """A slot that was used or skipped, or a run that an operator ordered."""

    slot: datetime
    sent_at: datetime
    task_id: str | None
    workflow_id: str | None
    ordered_by: str | None
    """The operator who ordered the run or skipped the slot."""
    state: str
    """The status of its task or workflow; SKIPPED if nothing was sent, PRUNED if it was deleted."""
    error_code: str | None
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def failed(self) -> bool:
        return self.state in _FAILED

    def duration(self, now: datetime) -> timedelta | None:
        """Return the time from its start to its end or now; None if it has not started or was never sent."""
        return None if self.started_at is None else max((self.ended_at or now) - self.started_at, _AT_ONCE)


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of the schedule as its scheduler registered it."""

    pattern: SchedulePattern | None
    """The pattern; None for an unknown pattern of a newer release."""
    words: str
    """The pattern in words, such as `daily 02:30 Europe/Berlin` or `every 5 min`."""
    timezone: str
    kind: str
    """Either `task` or `workflow`."""
    target: str
    """The name of the task or workflow."""
    queue: str | None
    priority: int | None
    args: str | None
    kwargs: str | None
    """JSON, like `args`."""
    catch_up_missed: bool
    overdue_after_s: float


class Standing(StrEnum):
    """Conditions of a schedule, the worst first."""

    OVERDUE = "overdue"
    UNSERVED = "unserved"
    """No running scheduler has it, so nothing will be sent."""
    PAUSED = "paused"
    SCHEDULED = "scheduled"


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule. Compare its times with the `now` of the list."""

    name: str
    definition: Definition | None
    """The definition; None if only schedulers of upstream or of versions before 10 have served it."""
    registered_at: datetime | None
    next_run_at: datetime | None
    """The next run; None if it was never planned: it then runs at once."""
    last_run_at: datetime | None
    run_count: int
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None
    skip_slot: datetime | None
    """The slot that an operator ordered to skip."""
    skipped_by: str | None
    runs: tuple[ScheduleRun, ...]
    """Its runs, newest first."""
    schedulers: tuple[str, ...]
    """The ids of the running schedulers that serve it."""

    @property
    def id(self) -> str:
        return self.name

    @property
    def last(self) -> ScheduleRun | None:
        """The newest run that was sent."""
        return next((run for run in self.runs if run.state != "SKIPPED"), None)

    @property
    def skips_next(self) -> bool:
        return self.skip_slot is not None and self.skip_slot == self.next_run_at

    def overdue(self, now: datetime) -> timedelta | None:
        """Return how long it has been overdue; None if it is not due, or only for a short time."""
        if self.paused_at is not None or self.next_run_at is None:
            return None
        late = now - self.next_run_at
        allowed_s = OVERDUE_AFTER_S if self.definition is None else self.definition.overdue_after_s
        return late if late.total_seconds() > allowed_s else None

    def standing(self, now: datetime) -> Standing:
        if self.paused_at is not None:
            return Standing.PAUSED
        if self.overdue(now) is not None:
            return Standing.OVERDUE
        # Schedulers of upstream do not say what they serve.
        return Standing.UNSERVED if self.definition is not None and not self.schedulers else Standing.SCHEDULED


@dataclass(frozen=True, slots=True)
class SchedulerRow:
    """A scheduler, in the column order of the statement."""

    id: str
    hostname: str
    pid: int
    schedules: frozenset[str]
    version: str
    started_at: datetime
    seen_at: datetime

    @property
    def name(self) -> str:
        return f"{self.hostname}:{self.pid}"

    def lives(self, now: datetime) -> bool:
        return (now - self.seen_at).total_seconds() <= SEEN_WITHIN_S


@dataclass(frozen=True, slots=True)
class Schedules:
    """All schedules by name, and the running and lost schedulers."""

    now: datetime
    rows: tuple[ScheduleRow, ...]
    schedulers: tuple[SchedulerRow, ...]
    more: bool
    """True if there are more than MOST_SCHEDULES."""

    def living(self, now: datetime) -> tuple[SchedulerRow, ...]:
        return tuple(one for one in self.schedulers if one.lives(now))


@dataclass(frozen=True, slots=True)
class ScheduleStory:
    """One schedule with more of its runs, and operators' actions on it."""

    now: datetime
    row: ScheduleRow
    schedulers: tuple[SchedulerRow, ...]
    """The schedulers that serve it, running or lost."""
    audit: tuple[AuditRow, ...]


class NextRun(NamedTuple):
    """A planned run, as the stored definition has it."""

    at: datetime
    is_skipped: bool
    shift: timedelta
    """Change of the clocks of the schedule's zone since the previous run, or since now."""


async def schedule_rows(conn: asyncpg.Connection) -> Schedules:
    """Read all schedules; on a database of upstream, what its schedulers have stored."""
    here = await tables(conn)
    schedulers = await scheduler_rows(conn, there=here.schedules)
    rows = await _rows(conn, None, MOST_SCHEDULES + 1, STRIP_RUNS, here, schedulers)
    return Schedules(here.now, rows[:MOST_SCHEDULES], schedulers, len(rows) > MOST_SCHEDULES)


async def schedule_story(conn: asyncpg.Connection, name: str) -> ScheduleStory | None:
    """Read all data of one schedule; None if there is none of this name."""
    here = await tables(conn)
    schedulers = await scheduler_rows(conn, there=here.schedules)
    rows = await _rows(conn, name, 1, STORY_RUNS, here, schedulers)
    if not rows:
        return None
    audit = await audit_page(conn, limit=_MAX_ACTIONS, target=("schedule", name))
    return ScheduleStory(here.now, rows[0], tuple(one for one in schedulers if name in one.schedules), audit.rows)


def next_runs(row: ScheduleRow, now: datetime, count: int) -> tuple[NextRun, ...]:
    """Return the next runs by its stored definition: fewer if it ends, only the first if its pattern is unknown.

    For a paused schedule, return the runs after a resume at `now`.
    """
    found: list[NextRun] = []
    before = now
    zone = None if row.definition is None else zone_named(row.definition.timezone)
    for at in _slots(row, now):
        offsets = [moment.astimezone(zone).utcoffset() or _AT_ONCE for moment in (before, at)]
        shift = offsets[1] - offsets[0] if zone is not None else _AT_ONCE
        found.append(NextRun(at, at == row.skip_slot, shift))
        before = at
        if len(found) == count:
            break
    return tuple(found)


def _slots(row: ScheduleRow, now: datetime) -> Iterator[datetime]:
    definition = row.definition
    pattern = None if definition is None else definition.pattern
    if definition is None or pattern is None:
        if row.next_run_at is not None:
            yield row.next_run_at
        return
    zone = definition.timezone
    try:
        slot = row.next_run_at or calculate_next_run(pattern, now, zone)
        if row.paused_at is not None and slot <= now:
            slot = next_slot(pattern, slot, now, zone)
        while True:
            yield slot
            if definition.catch_up_missed:
                slot = calculate_next_run(pattern, slot, zone)
            else:
                slot = next_slot(pattern, slot, max(slot, now), zone)
    except (ValueError, OverflowError):
        return  # it is never due again


async def _rows(
    conn: asyncpg.Connection, name: str | None, most: int, runs: int, here: Tables, schedulers: Sequence[SchedulerRow]
) -> tuple[ScheduleRow, ...]:
    sources = _SOURCES if here.schedules else _SOURCES_OF_UPSTREAM
    fragments = {place: statement(__name__, source) for place, source in sources.items()}
    sql = statement(__name__, "view_schedules", **fragments)
    serving: dict[str, list[str]] = {}
    for scheduler in schedulers:
        for schedule in scheduler.schedules if scheduler.lives(here.now) else ():
            serving.setdefault(schedule, []).append(scheduler.id)
    return tuple(_row(tuple(row), serving) for row in await conn.fetch(sql, name, most, runs))


def _row(columns: tuple[Any, ...], serving: dict[str, list[str]]) -> ScheduleRow:
    name, definition, *stored = columns[:11]
    # Arrays of one run each, or NULL if there are none.
    runs = [ScheduleRun(*map(aware, run)) for run in zip(*columns[11:], strict=True)] if columns[11] else []
    known = None if definition is None else definition_of(definition)
    return ScheduleRow(*(name, known, *map(aware, stored), tuple(runs), tuple(serving.get(name, ()))))


async def scheduler_rows(
    conn: asyncpg.Connection, *, there: bool, within: timedelta = _LISTED_FOR
) -> tuple[SchedulerRow, ...]:
    rows = await conn.fetch(statement(__name__, "view_schedulers"), _MAX_SCHEDULERS, within) if there else []
    return tuple(SchedulerRow(*(*row[:3], frozenset(texts(row[3])), *row[4:])) for row in map(tuple, rows))


@lru_cache(maxsize=4096)
def definition_of(text: str) -> Definition:
    """Parse a definition, cached by its text: it rarely changes, and a list of 1,000 is read every two seconds."""
    stored = json_map(text)
    known = {name: value for name in _TEXTS if isinstance(value := stored.get(name), str)}
    zone = known.get("timezone") or "UTC"
    pattern, interval = _pattern_of(stored.get("pattern"), zone), stored.get("check_interval_seconds")
    wrong = [name for name in _TEXTS if stored.get(name) is not None and name not in known]
    if isinstance(stored, Damaged) or wrong:
        words: str = DamagedText.of("a damaged definition", text)
    elif pattern is None:
        words = f"{json.dumps(stored.get('pattern'))}, a pattern that this release does not know"
    else:
        words = pattern.words() if isinstance(pattern, IntervalSchedule) else f"{pattern.words()} {zone}"
    return Definition(
        pattern,
        words,
        zone if pattern is not None else "UTC",
        known.get("kind") or "task",
        known.get("target") or "",
        known.get("queue"),
        priority if is_whole(priority := stored.get("priority")) else None,
        known.get("args"),
        known.get("kwargs"),
        bool(stored.get("catch_up_missed")),
        max(OVERDUE_AFTER_S, 2 * interval if isinstance(interval, int | float) and interval < _MAX_S else 0),
    )


def _pattern_of(stored: object, zone: str) -> SchedulePattern | None:
    try:
        zone_named(zone)
        return stored_pattern(stored)
    except (ValueError, RecursionError):
        return None


def note(row: ScheduleRow, now: datetime, lasting: Callable[[timedelta], str]) -> str:
    """Return problems of the schedule in words; empty if its runs end well."""
    served = row.definition is None or bool(row.schedulers)
    match row.standing(now):
        case Standing.PAUSED if row.paused_at is not None:
            by = f" by {row.paused_by}" if row.paused_by else ""
            why = f': "{row.paused_reason}"' if row.paused_reason else ""
            return f"paused {lasting(now - row.paused_at)} ago{by}{why}"
        case Standing.OVERDUE if (late := row.overdue(now)) is not None:
            return f"due for {lasting(late)}" + ("" if served else ", no scheduler serves it")
        case Standing.UNSERVED:
            return "no scheduler serves it"
    if row.skip_slot is not None:
        by = f" by order of {row.skipped_by}" if row.skipped_by else ""
        return f"its next run is skipped{by}" if row.skips_next else f"a run is skipped{by}"
    return (row.last.error_code or "") if row.last is not None else ""


def sends(definition: Definition | None) -> str:
    """Return the target, such as `shop.report` or `workflow month_end`."""
    if definition is None:
        return ""
    return definition.target if definition.kind == "task" else f"{definition.kind} {definition.target}"


def served_by(schedulers: Sequence[SchedulerRow]) -> str:
    """Return the running schedulers, such as `1 scheduler, web-1:4121`."""
    if not schedulers:
        return NO_SCHEDULER
    names = ", ".join(one.name for one in schedulers)
    return f"{counted(len(schedulers), 'scheduler')}, {names}"


def about_next(row: ScheduleRow, run: NextRun, now: datetime) -> str:
    """Return what is unusual about a planned run."""
    parts = []
    if run.at <= now:
        parts.append("due now")
    if run.is_skipped:
        parts.append(f"skipped by {row.skipped_by}" if row.skipped_by else "skipped")
    if run.shift:
        hours = abs(run.shift.total_seconds()) / 3600
        parts.append(f"clocks go {'forward' if run.shift.total_seconds() > 0 else 'back'} {hours:g} h")
    return ", ".join(parts)


def about_all_next(row: ScheduleRow) -> str:
    """Return what applies to all planned runs; empty if they are ordinary."""
    if row.definition is None:
        return _UNDEFINED
    if row.definition.pattern is None:
        return "this release does not know its pattern, so only the planned run is known"
    if row.paused_at is not None:
        return "it is paused: none of these is sent"
    return "" if row.schedulers else "no scheduler serves it: none of these is sent"
