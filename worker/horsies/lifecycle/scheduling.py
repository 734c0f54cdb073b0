"""Schedules come due and send their tasks, each slot once, whichever of several schedulers gets there first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.isolate_bad_rows import isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.store.enqueue import EnqueueRequest
    from horsies.store.isolate_bad_rows import Refused

_BATCH = 100
MOST_DUE = 500  # as in the statement


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A row that is due. `slot` is None for a schedule that has never been planned; `now` is the database's time."""

    name: str
    slot: datetime | None
    config_hash: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """What follows from a due schedule: a task for each slot, the oldest first, and when it comes due next."""

    due: DueSchedule
    next_run_at: datetime
    tasks: Sequence[EnqueueRequest]


async def register(
    conn: asyncpg.Connection,
    hashes: dict[str, str],
    next_run: Callable[[str, datetime], datetime],
    *,
    starts: bool,
) -> tuple[datetime, set[str]]:
    """Make the rows of these schedules that are missing or were made for another pattern; returns the database's time
    and their names. Unless the scheduler `starts`, a row for another pattern is left alone until it is overdue."""
    now: datetime = await conn.fetchval(statement(__name__, "schedule_time"))
    names = sorted(hashes)
    planned = [next_run(name, now) for name in names], [hashes[name] for name in names]
    rows = await conn.fetch(statement(__name__, "schedule_register"), names, *planned, starts)
    return now, {row["schedule_name"] for row in rows}


async def due(conn: asyncpg.Connection, names: Collection[str]) -> list[DueSchedule]:
    """The schedules of these names that are due, the longest overdue first, at most 500."""
    if not await conn.fetchval(statement(__name__, "schedule_is_due")):
        return []
    return [DueSchedule(*row) for row in await conn.fetch(statement(__name__, "schedules_due"), list(names))]


async def run(conn: asyncpg.Connection, runs: Sequence[ScheduleRun]) -> tuple[set[str], list[Refused[ScheduleRun]]]:
    """Send the tasks and move the schedules on; returns the names of those that this call moved, and what the database
    rejected. A schedule that another scheduler moves at this moment is in neither."""
    batches = (runs[start : start + _BATCH] for start in range(0, len(runs), _BATCH))

    async def store(batch: Sequence[ScheduleRun]) -> set[str]:
        rows = await conn.fetch(statement(__name__, "schedule_run"), *_schedules(batch), *_tasks(batch))
        return {row["schedule_name"] for row in rows}

    done = await isolate_bad_rows(batches, store)
    return set().union(*done.answers), done.refused


def _schedules(batch: Iterable[ScheduleRun]) -> tuple[list[object], ...]:
    rows = [(one.due.name, one.due.slot, one.due.config_hash, one.next_run_at, one.tasks[-1].task_id) for one in batch]
    return tuple(map(list, zip(*rows, strict=True)))


def _tasks(batch: Iterable[ScheduleRun]) -> tuple[list[object], ...]:
    rows = [(one.due.name, *_columns(task)) for one in batch for task in one.tasks]
    return tuple(map(list, zip(*rows, strict=True)))


def _columns(task: EnqueueRequest) -> tuple[object, ...]:
    *shared, max_retries = task.columns()
    return (*shared[:9], max_retries)
