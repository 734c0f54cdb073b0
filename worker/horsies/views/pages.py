"""Pages of tasks: their orders, the fields of a row, and its position in an order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from horsies.views.searching import Cursor, Page

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from horsies.views.progress import Progress, RunKey
    from horsies.views.search import Duplicates


class Sort(StrEnum):
    """Orders of lists. Some show only tasks with the sort column: WAITING only PENDING tasks, RUNNING only RUNNING

    ones, FINISHED only tasks with an end time, which a task cancelled by upstream lacks.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


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
    """The position of this row in an order that shows it."""
    match sort:
        case Sort.NEWEST | Sort.OLDEST:
            return Cursor(row.created_at, row.id)
        case Sort.WAITING:
            return Cursor(row.enqueued_at, row.id, row.priority)
        case Sort.RUNNING:
            return Cursor(row.started_at or row.claimed_at or row.created_at, row.id)
        case Sort.FINISHED:
            return Cursor(row.finished_at or row.created_at, row.id)
