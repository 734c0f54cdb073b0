"""Sentences about schedules that the commands and the console share; each passes its own format of a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views.schedules import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from horsies.views.schedules import Definition, NextRun, ScheduleRow, SchedulerRow

START: Final = "`horsies scheduler MODULE` or `horsies worker MODULE --with-scheduler` starts one"
NO_SCHEDULER: Final = "no scheduler runs, so nothing is sent"
TEACHES: Final = (
    "no schedule is stored here",
    "Schedules are defined in AppConfig(schedule=ScheduleConfig(schedules=[TaskSchedule(…)])). A scheduler stores them",
    f"and sends their tasks: {START}.",
)
_UNDEFINED: Final = "its scheduler has not stored what it sends: upstream's and older releases do not"


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
    return f"{len(schedulers)} scheduler{'' if len(schedulers) == 1 else 's'}, {names}"


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
