"""Tasks under a filter: their rows and orders, the sources in which they are searched, each with its index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies.domain.quantities import counted
from horsies.query.keys import DUPLICATES
from horsies.store.statements import STATES, statement
from horsies.views.progress import progress_of
from horsies.views.reader_session import aware, has_table
from horsies.views.searching import Cursor, Page, Source, Table, read_newest, read_page

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime, timedelta

    import asyncpg

    from horsies.query import TaskConditions
    from horsies.views.progress import Progress, RunKey


class Sort(StrEnum):
    """Orders of lists. Some show only tasks with the sort column.

    WAITING shows only PENDING tasks, RUNNING only RUNNING ones, and FINISHED only those with an end time, which a task
    cancelled by upstream lacks.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The duplicate sends of one task, in the column order of the statement."""

    sends: int
    last_at: datetime

    @property
    def words(self) -> str:
        return f"{counted(self.sends, 'send')} with its key stored nothing"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in a list. Times are the database's; compare them with the `now` of their page.

    The fields up to `error_message` are the columns of `view_task_page`, in its order; the others are read beside it.
    """

    id: str
    name: str
    queue: str
    priority: int
    status: str
    state: str
    """The status, or RETRY (PENDING until its backoff is over), or INTERRUPTED (FAILED with TASK_INTERRUPTED)."""
    created_at: datetime
    sent_at: datetime | None
    enqueued_at: datetime
    next_retry_at: datetime | None
    good_until: datetime | None
    claimed_at: datetime | None
    claim_expires_at: datetime | None
    started_at: datetime | None
    finalizing_at: datetime | None
    finished_at: datetime | None
    retry_count: int
    max_retries: int
    worker_id: str | None
    worker_hostname: str | None
    worker_pid: int | None
    worker_process_name: str | None
    error_code: str | None
    """The error code; for a task that waits for a retry, that of its last attempt."""
    is_workflow_task: bool
    unique_key: str | None
    rerun_of: str | None
    beat_at: datetime | None
    """The newest beat of this execution, of the run or of the claim; None if it is neither RUNNING nor CLAIMED."""
    error_message: str | None = None
    """The beginning of the error message of the last attempt, if the task failed or waits for a retry."""
    progress: Progress | None = None
    """The progress of its run, if its code reports any."""
    duplicates: Duplicates | None = None
    """The sends that found its unique key in use, if any."""

    @property
    def attempt(self) -> int:
        """The number of the current or last attempt, or for a waiting task of the next."""
        return self.retry_count + 1

    @property
    def attempts_allowed(self) -> int:
        return self.max_retries + 1

    @property
    def due_at(self) -> datetime:
        """The earliest time at which it can be claimed."""
        return max(self.enqueued_at, self.next_retry_at or self.enqueued_at)

    def age(self, now: datetime) -> timedelta:
        return now - (self.sent_at or self.created_at)

    def wait(self, now: datetime) -> timedelta | None:
        """Return the time from claimable to started; None before it is due, or if it ended without a start."""
        until = self.started_at or (None if self.finished_at else now)
        return None if until is None or until < self.enqueued_at else until - self.enqueued_at

    @property
    def run_key(self) -> RunKey | None:
        """The key of its progress; None while it does not run."""
        began = self.started_at or self.claimed_at
        return (self.id, began) if self.status == "RUNNING" and began is not None else None

    def run(self, now: datetime) -> timedelta | None:
        """Return the time from its start to its end or now; None if it has not started."""
        return None if self.started_at is None else (self.finished_at or now) - self.started_at


TaskPage: TypeAlias = Page[TaskRow]


def cursor_of(row: TaskRow, sort: Sort) -> Cursor:
    """Return the position of this row in an order that shows it."""
    match sort:
        case Sort.NEWEST | Sort.OLDEST:
            return Cursor(row.created_at, row.id)
        case Sort.WAITING:
            return Cursor(row.enqueued_at, row.id, row.priority)
        case Sort.RUNNING:
            return Cursor(row.started_at or row.claimed_at or row.created_at, row.id)
        case Sort.FINISHED:
            return Cursor(row.finished_at or row.created_at, row.id)


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """A task as the operator saw it. A row that now differs in status, owner, claim, attempt or error is not changed.

    Statements that fill it select its fields in this order, so that `ExpectedState(*row)` builds one.
    """

    task_id: str
    task_name: str
    queue_name: str
    status: str
    worker_id: str | None
    """The column claimed_by_worker_id."""
    claimed_at: datetime | None
    retry_count: int
    error_code: str | None
    good_until: datetime | None
    finalizing_at: datetime | None
    is_workflow_task: bool
    last_action: int | None = None
    """The newest audit row of an action on it; read only if the verb does not change the row."""


ROWS_WITH_ARGUMENTS: Final = 2_000
"""Rows read by a search in arguments, which may be large, stored out of line and compressed."""

LIVE_STATUSES: Final = frozenset({"PENDING", "CLAIMED", "RUNNING"})
UNSUCCESSFUL_STATUSES: Final = frozenset({"FAILED", "CANCELLED", "EXPIRED"})

TASKS: Final = Table("horsies_tasks", "task", statement(__name__, "view_candidates"))

_ENDED_AT: Final = "COALESCE(completed_at, failed_at)"
_UNSUCCESSFUL: Final = "task.status IN ('FAILED', 'CANCELLED', 'EXPIRED')"
_SENT: Final = frozenset({"since", "until"})

CREATED: Final = Source("created", "true", 20_000, time="created_at", serves=_SENT)
UNSUCCESSFUL: Final = Source(
    "unsuccessful", _UNSUCCESSFUL, 5_000, time="created_at", serves=_SENT, statuses=UNSUCCESSFUL_STATUSES
)
# A row cancelled by upstream has no such time. The index does not contain the id: rows of one moment are read together
# and sorted.
FINISHED: Final = Source(
    "finished",
    f"status IN {STATES['ended_tasks']} AND {_ENDED_AT} <= 'infinity'",
    10_000,
    time=_ENDED_AT,
    statuses=UNSUCCESSFUL_STATUSES | {"COMPLETED"},
)
FINISHED_UNSUCCESSFUL: Final = Source(
    "finished unsuccessful",
    f"task.status = one.name AND {_UNSUCCESSFUL} AND {_ENDED_AT} <= 'infinity'",
    5_000,
    time=_ENDED_AT,
    serves=frozenset({"status"}),
    each="SELECT pg_catalog.unnest('{FAILED,CANCELLED,EXPIRED}'::text[])",
)
WAITING: Final = Source(
    "waiting",
    "status = 'PENDING' AND queue_name = one.name",
    5_000,
    time="enqueued_at",
    by_priority=True,
    serves=frozenset({"queue"}),
    statuses=frozenset({"PENDING"}),
    each=statement(__name__, "view_queues_that_wait"),
)
"""Waiting tasks in the order in which they are claimed."""
RUNNING: Final = Source("running", statement(__name__, "view_running"), 5_000)
IN_FLIGHT: Final = Source("in flight", statement(__name__, "view_in_flight"), 10_000)
LIVE: Final = Source("live", statement(__name__, "view_live"), 10_000)
BY_ID: Final = Source("ids", statement(__name__, "view_by_id"), 5_000, serves=frozenset({"id"}))
OF_WORKFLOW: Final = Source("workflow", statement(__name__, "view_of_workflow"), 5_000, serves=frozenset({"workflow"}))


async def source_for(conn: asyncpg.Connection, wanted: TaskConditions, sort: Sort) -> Source:
    """Return the smallest source that contains all matches."""
    among = None if wanted.statuses is None else frozenset(wanted.statuses)
    unsuccessful = among is not None and among <= UNSUCCESSFUL_STATUSES
    match sort:
        case Sort.RUNNING:
            return RUNNING
        case Sort.WAITING:
            return WAITING
        case Sort.FINISHED:
            return FINISHED_UNSUCCESSFUL if unsuccessful else FINISHED
    if wanted.exact("id") is not None:
        return BY_ID
    if wanted.exact("workflow") is not None:
        return OF_WORKFLOW
    if unsuccessful:
        return UNSUCCESSFUL
    if among is not None and among <= LIVE_STATUSES:
        if "PENDING" not in among:
            return IN_FLIGHT
        if await few_wait(conn, LIVE.rows_at_once):
            return LIVE
    return CREATED


def rows_at_once(wanted: TaskConditions, source: Source) -> int:
    looks_into_arguments = any(condition.key == "args" for condition in wanted.others)
    return ROWS_WITH_ARGUMENTS if looks_into_arguments else source.rows_at_once


async def few_wait(conn: asyncpg.Connection, most: int) -> bool:
    return bool(await conn.fetchval(statement(__name__, "view_few_wait"), most))


async def duplicates_of(conn: asyncpg.Connection, ids: Collection[str]) -> Mapping[str, Duplicates]:
    """Read the duplicate sends by task, without tasks that have none."""
    if not ids or not await has_table(conn, "horsies_duplicate_sends"):
        return {}
    rows = await conn.fetch(statement(__name__, "view_duplicates"), list(ids))
    return {task_id: Duplicates(*told) for task_id, *told in (map(aware, row) for row in rows)}


async def answerable(conn: asyncpg.Connection, wanted: TaskConditions) -> TaskConditions:
    """Return the same conditions; without a table of duplicate sends, those in which no task has any."""
    if all(one.key != "dup" for one in wanted.others) or await has_table(conn, "horsies_duplicate_sends"):
        return wanted
    return replace(wanted, others=tuple(replace(one, sql=one.sql.replace(DUPLICATES, "0")) for one in wanted.others))


async def task_page(
    conn: asyncpg.Connection,
    wanted: TaskConditions,
    *,
    sort: Sort = Sort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> TaskPage:
    """Read up to `limit` rows after a cursor, or before it with `backwards`.

    Rare matches are searched in parts: a page may have fewer rows, even none, and `reached` then says that the search
    continues with the next one.
    """
    wanted = await answerable(conn, wanted)
    source = await source_for(conn, wanted, sort)
    page = await read_page(
        conn,
        TASKS,
        wanted,
        source,
        statement(__name__, "view_task_page"),
        ascending=sort in (Sort.OLDEST, Sort.WAITING, Sort.RUNNING),
        limit=limit,
        after=after,
        backwards=backwards,
        most=rows_at_once(wanted, source),
        row_of=TaskRow,
        cursor_of=partial(cursor_of, sort=sort),
    )
    reports = await progress_of(conn, [row.run_key for row in page.rows if row.run_key is not None])
    swallowed = await duplicates_of(conn, [row.id for row in page.rows if row.unique_key is not None])
    if not reports and not swallowed:
        return page
    rows = (
        replace(row, progress=reports.get(row.run_key or ("", row.created_at)), duplicates=swallowed.get(row.id))
        for row in page.rows
    )
    return replace(page, rows=tuple(rows))


async def matching(conn: asyncpg.Connection, wanted: TaskConditions, limit: int) -> list[ExpectedState]:
    """Read the newest `limit` matches of any age."""
    wanted = await answerable(conn, wanted)
    source = await source_for(conn, wanted, Sort.NEWEST)
    selecting = statement(__name__, "view_task_matching")
    return [ExpectedState(*row) for row in await read_newest(conn, TASKS, wanted, source, selecting, limit)]
