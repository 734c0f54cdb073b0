"""Reads for the application: outcomes, one task's row with its attempts, and tasks with problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import load_task_result
from horsies.domain.codec.classes import OURS, Classes
from horsies.domain.codes import OperationalErrorCode, OutcomeCode, RetrievalCode, to_builtin
from horsies.domain.infos import ProgressInfo, TaskAttemptInfo, TaskInfo
from horsies.domain.states import TASK_TERMINAL_STATES, TaskAttemptOutcome, TaskStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.domain.codes import BuiltInTaskCode

_TERMINAL = frozenset(status.value for status in TASK_TERMINAL_STATES)

# A worker that crashed before the end of a task stores no result, nor does an UPDATE of the status in psql.
_CODE_WITHOUT_RESULT: dict[str, BuiltInTaskCode] = {
    "COMPLETED": RetrievalCode.RESULT_NOT_AVAILABLE,
    "FAILED": OperationalErrorCode.WORKER_CRASHED,
    "EXPIRED": OutcomeCode.TASK_EXPIRED,
    "CANCELLED": OutcomeCode.TASK_CANCELLED,
}
_WORDS_WITHOUT_RESULT = {
    "COMPLETED": "the task completed, but its row holds no result",
    "FAILED": "the task failed without a result",
    "EXPIRED": "the task was not started before its good_until",
    "CANCELLED": "the task was cancelled",
}


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """The columns of a task's row that a wait for its result needs."""

    task_id: str
    status: str
    stored: str | None
    error_code: str | None
    failed_reason: str | None

    @property
    def is_final(self) -> bool:
        return self.status in _TERMINAL

    def result(self, classes: Classes = OURS) -> TaskResult[Any, TaskError]:
        """Return the result of a final task. Never raises, also for a damaged row."""
        if self.stored is not None and self.status != TaskStatus.CANCELLED.value:
            return load_task_result(self.stored, classes)
        own_code = self.error_code if self.status == TaskStatus.FAILED.value else None
        code = to_builtin(own_code) if own_code else _CODE_WITHOUT_RESULT[self.status]
        words = _WORDS_WITHOUT_RESULT[self.status]
        message = f"{words}: {self.failed_reason}" if self.failed_reason else words
        return TaskResult(err=TaskError(error_code=code, message=message, data={"task_id": self.task_id}))


async def read_outcomes(connection: asyncpg.Connection, task_ids: Sequence[str]) -> dict[str, StoredOutcome]:
    """Read the existing rows with these ids."""
    rows = await connection.fetch(statement(__name__, "read_outcomes"), task_ids)
    return {row["id"]: StoredOutcome(*row) for row in rows}


async def read_info(
    connection: asyncpg.Connection,
    task_id: str,
    *,
    include_result: bool,
    include_failed_reason: bool,
    include_attempts: bool,
    classes: Classes = OURS,
) -> TaskInfo | None:
    """Read one task; return None if it does not exist. Raise ValueError for an unknown status."""
    rows = await connection.fetch(statement(__name__, "read_task"), task_id, include_result, include_failed_reason)
    if not rows:
        return None
    columns = dict(rows[0])
    result, reason = columns.pop("result"), columns.pop("failed_reason")
    done, total, unit, reported_at = (columns.pop(name) for name in ("done", "total", "unit", "reported_at"))
    outcome = StoredOutcome(task_id, columns.pop("status"), result, columns["error_code"], reason)
    return TaskInfo(
        **columns,
        status=TaskStatus(outcome.status),
        result=outcome.result(classes) if include_result and outcome.is_final else None,
        failed_reason=reason if include_failed_reason else None,
        attempts=await read_attempts(connection, task_id) if include_attempts else None,
        progress=None if done is None else ProgressInfo(done, total, unit, reported_at),
    )


async def read_attempts(connection: asyncpg.Connection, task_id: str) -> list[TaskAttemptInfo]:
    """Newest first."""
    rows = await connection.fetch(statement(__name__, "read_attempts"), task_id)
    return [TaskAttemptInfo(**dict(row) | {"outcome": TaskAttemptOutcome(row["outcome"])}) for row in rows]


async def read_stale_tasks(connection: asyncpg.Connection, threshold_minutes: float) -> list[dict[str, Any]]:
    """Read RUNNING tasks whose execution has sent no heartbeat for that long."""
    return [dict(row) for row in await connection.fetch(statement(__name__, "stale_tasks"), threshold_minutes)]


async def read_worker_stats(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """Read the number of running tasks of each worker process, busiest first."""
    return [dict(row) for row in await connection.fetch(statement(__name__, "worker_stats"))]


async def read_expired_tasks(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """Read PENDING tasks past their deadline."""
    return [dict(row) for row in await connection.fetch(statement(__name__, "expired_tasks"))]
