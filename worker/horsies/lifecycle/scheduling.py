"""Due schedules send their tasks and workflows: each slot once, also with several schedulers."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Protocol

from horsies.domain.errors import WorkflowValidationError
from horsies.lifecycle.create_workflow import create_workflow
from horsies.store.isolate_bad_rows import batches_of, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.domain.plan import WorkflowPlan
    from horsies.store.enqueue import EnqueueRequest
    from horsies.store.isolate_bad_rows import RejectedItem

_BATCH = 100
_TASK_COLUMNS = 11
MOST_DUE = 500  # as in the statement


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A row that is due. `slot` is None for a schedule that has never been planned; `now` is the database's time."""

    name: str
    slot: datetime | None
    config_hash: str | None
    now: datetime
    skip_slot: datetime | None = None
    """The slot that an operator ordered to skip."""
    is_defined: bool = True
    """True if it has a row in horsies_schedules; without one it is not sent."""


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The use of a slot: a task or a workflow, or nothing if it is skipped."""

    slot: datetime
    task: EnqueueRequest | None = None
    workflow_id: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleAdvance:
    """The result of a due schedule: the use of each slot, the oldest first, and when it is due next."""

    due: DueSchedule
    next_run_at: datetime
    uses: Sequence[SlotUse]

    @property
    def tasks(self) -> list[EnqueueRequest]:
        return [use.task for use in self.uses if use.task is not None]

    @property
    def sends(self) -> bool:
        return any(use.task is not None or use.workflow_id is not None for use in self.uses)


class Registration(Protocol):
    """A schedule as its application defines it."""

    @property
    def hash(self) -> str:
        """The hash of its pattern and zone; a row with a different hash was planned for a different pattern."""

    @property
    def definition(self) -> str:
        """The JSON of horsies_schedules, which the console and the commands read."""

    def next_run(self, now: datetime) -> datetime:
        """Return the next run of a schedule that has not run yet."""


async def register(
    conn: asyncpg.Connection, schedules: Mapping[str, Registration], *, starts: bool
) -> tuple[datetime, set[str]]:
    """Create or replace the rows of these schedules that are missing or were made for another pattern.

    Returns the database's time and the names of the changed rows. Unless the scheduler `starts`, a row for another
    pattern is kept until it is overdue.
    """
    now: datetime = await conn.fetchval(statement(__name__, "schedule_time"))
    names = sorted(schedules)
    planned = [schedules[name].next_run(now) for name in names], [schedules[name].hash for name in names]
    rows = await conn.fetch(statement(__name__, "schedule_register"), names, *planned, starts)
    changed = {row["schedule_name"] for row in rows}
    # Making and comparing 1,000 definitions takes 30 ms: it is done once, and later only for changed schedules.
    if not starts:
        undefined = await conn.fetch(statement(__name__, "schedules_undefined"), names)
        names = sorted(changed.union(name for (name,) in undefined))
    await define(conn, {name: schedules[name] for name in names})
    return now, changed


async def define(conn: asyncpg.Connection, schedules: Mapping[str, Registration]) -> None:
    """Store the definitions of these schedules: the console and the commands do not import the application."""
    if schedules:
        names = sorted(schedules)
        columns = [schedules[name].hash for name in names], [schedules[name].definition for name in names]
        await conn.execute(statement(__name__, "schedule_define"), names, *columns)


async def due(conn: asyncpg.Connection, names: Collection[str]) -> list[DueSchedule]:
    """Read up to 500 schedules of these names that are due and not paused, the longest overdue first."""
    if not await conn.fetchval(statement(__name__, "schedule_is_due")):
        return []
    return [DueSchedule(*row) for row in await conn.fetch(statement(__name__, "schedules_due"), list(names))]


async def run(
    conn: asyncpg.Connection, runs: Sequence[ScheduleAdvance]
) -> tuple[set[str], list[RejectedItem[ScheduleAdvance]]]:
    """Send the tasks and advance the schedules.

    Returns the names of the advanced schedules, and the rejected ones. A schedule that another scheduler is advancing,
    or that an operator has changed, is in neither.
    """
    done = await isolate_bad_rows(batches_of(runs, _BATCH), lambda batch: advance(conn, batch))
    return set().union(*done.answers), done.refused


async def advance(conn: asyncpg.Connection, batch: Sequence[ScheduleAdvance]) -> set[str]:
    """Send all in one statement; return the names of the advanced schedules."""
    values = (*_schedules(batch), *_slots(batch), *_tasks(batch))
    rows = await conn.fetch(statement(__name__, "schedule_run"), *values)
    return {row["schedule_name"] for row in rows}


async def start(conn: asyncpg.Connection, one: ScheduleAdvance, plan: WorkflowPlan | None) -> bool:
    """Start the workflow of each slot and advance the schedule in one transaction; False if it was advanced already.

    `plan` is None if all of its slots are skipped.
    """
    async with conn.transaction(isolation="read_committed"):
        if not await advance(conn, [one]):
            return False
        for use in one.uses:
            if use.workflow_id is not None and plan is not None:
                await _create(conn, plan, use.workflow_id, use.slot)
        return True


@dataclass(frozen=True, slots=True)
class OrderedRun:
    """A workflow that an operator ordered to start now: only a process with its application can build it."""

    name: str
    slot: datetime
    workflow_id: str


async def ordered_runs(conn: asyncpg.Connection, names: Collection[str]) -> list[OrderedRun]:
    """Return the ordered runs of these schedules that have not been started, the oldest first."""
    return [OrderedRun(*row) for row in await conn.fetch(statement(__name__, "schedule_ordered"), list(names))]


async def start_ordered(conn: asyncpg.Connection, order: OrderedRun, plan: WorkflowPlan) -> bool:
    """Start the run and mark it as started in one transaction; return False if another scheduler starts it."""
    async with conn.transaction(isolation="read_committed"):
        taken = await conn.fetchval(statement(__name__, "schedule_take_order"), order.name, order.slot)
        if taken is not None:
            await _create(conn, plan, order.workflow_id, order.slot)
        return taken is not None


async def _create(conn: asyncpg.Connection, plan: WorkflowPlan, workflow_id: str, slot: datetime) -> None:
    made = await create_workflow(conn, plan, workflow_id=workflow_id, sent_at=slot)
    if made.other_name is not None:
        raise WorkflowValidationError(f"the id {workflow_id} belongs to the workflow {made.other_name!r}")


@dataclass(frozen=True, slots=True)
class RunningScheduler:
    """A scheduler that runs, as in horsies_schedulers."""

    scheduler_id: str
    hostname: str
    pid: int
    schedules: list[str]
    version: str
    lost_after_s: float
    """Seconds of silence after which it counts as lost."""


async def renew_scheduler(conn: asyncpg.Connection, scheduler: RunningScheduler) -> None:
    """Renew the row that shows that this scheduler runs."""
    await conn.execute(statement(__name__, "renew_scheduler"), *astuple(scheduler))


async def remove_scheduler(conn: asyncpg.Connection, scheduler_id: str) -> None:
    await conn.execute(statement(__name__, "remove_scheduler"), scheduler_id)


def _schedules(batch: Iterable[ScheduleAdvance]) -> tuple[list[object], ...]:
    columns = ((one.due, one.next_run_at, one.sends, one.tasks) for one in batch)
    rows = [
        (due.name, due.slot, due.config_hash, next_run_at, sends, tasks[-1].task_id if tasks else None, due.skip_slot)
        for due, next_run_at, sends, tasks in columns
    ]
    return tuple(map(list, zip(*rows, strict=True)))


def _slots(batch: Iterable[ScheduleAdvance]) -> tuple[list[object], ...]:
    rows = [
        (one.due.name, use.slot, None if use.task is None else use.task.task_id, use.workflow_id)
        for one in batch
        for use in one.uses
    ]
    return tuple(map(list, zip(*rows, strict=True)))


def _tasks(batch: Iterable[ScheduleAdvance]) -> tuple[list[object], ...]:
    rows = [(one.due.name, *_columns(task)) for one in batch for task in one.tasks]
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in range(_TASK_COLUMNS))


def _columns(task: EnqueueRequest) -> tuple[object, ...]:
    *shared, max_retries = task.columns()
    return (*shared[:9], max_retries)
