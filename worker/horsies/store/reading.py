"""Reads for the application: outcomes of tasks and workflows, their rows in detail, and tasks with problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codec import load_summary, load_task_error, load_task_result
from horsies.domain.codec.classes import OURS, Classes
from horsies.domain.codes import OperationalErrorCode, OutcomeCode, RetrievalCode, to_builtin
from horsies.domain.states import (
    TASK_TERMINAL_STATES,
    TaskAttemptOutcome,
    TaskStatus,
    WorkflowStatus,
    WorkflowTaskStatus,
)
from horsies.domain.task_result import TaskError, TaskResult
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from horsies.domain.codes import BuiltInTaskCode
    from horsies.domain.task_result import SubWorkflowSummary


@dataclass(frozen=True, slots=True)
class TaskAttemptInfo:
    """One finished attempt; `attempt` counts from 1."""

    task_id: str
    attempt: int
    outcome: TaskAttemptOutcome
    will_retry: bool
    started_at: datetime
    finished_at: datetime
    error_code: str | None = None
    error_message: str | None = None
    failed_reason: str | None = None
    worker_id: str | None = None
    worker_hostname: str | None = None
    worker_pid: int | None = None
    worker_process_name: str | None = None


@dataclass(frozen=True, slots=True)
class ProgressInfo:
    """The progress of a run by its last report, which is stored once a second; a `total` of None is unknown."""

    done: float
    total: float | None
    unit: str | None
    reported_at: datetime


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task's row at one moment; `result`, `failed_reason` and `attempts` are filled only on request."""

    task_id: str
    task_name: str
    status: TaskStatus
    queue_name: str
    priority: int
    retry_count: int
    max_retries: int
    next_retry_at: datetime | None
    sent_at: datetime | None
    enqueued_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    worker_hostname: str | None
    worker_pid: int | None
    worker_process_name: str | None
    error_code: str | None = None
    result: TaskResult[Any, Any] | None = None
    failed_reason: str | None = None
    attempts: list[TaskAttemptInfo] | None = None
    """Newest first."""
    progress: ProgressInfo | None = None
    """Of the present or last run; None if it has reported none."""


@dataclass(frozen=True, slots=True)
class WorkflowTaskInfo:
    """A node of a workflow at one moment; `result` once it has one."""

    node_id: str | None
    index: int
    name: str
    status: WorkflowTaskStatus
    result: TaskResult[Any, Any] | None
    started_at: datetime | None
    completed_at: datetime | None
    sub_workflow_id: str | None = None
    sub_workflow_summary: SubWorkflowSummary[Any] | None = None


_TERMINAL = frozenset(status.value for status in TASK_TERMINAL_STATES)

# A worker that crashed before the end of a task stores no result, nor does an UPDATE of the status in psql.
_WITHOUT_RESULT: Final[dict[str, tuple[BuiltInTaskCode, str]]] = {
    "COMPLETED": (RetrievalCode.RESULT_NOT_AVAILABLE, "the task completed, but its row has no result"),
    "FAILED": (OperationalErrorCode.WORKER_CRASHED, "the task failed without a result"),
    "EXPIRED": (OutcomeCode.TASK_EXPIRED, "the task was not started before its good_until"),
    "CANCELLED": (OutcomeCode.TASK_CANCELLED, "the task was cancelled"),
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
        code, words = _WITHOUT_RESULT[self.status]
        message = f"{words}: {self.failed_reason}" if self.failed_reason else words
        error_code = to_builtin(own_code) if own_code else code
        return TaskResult(err=TaskError(error_code=error_code, message=message, data={"task_id": self.task_id}))


async def read_outcomes(connection: asyncpg.Connection, task_ids: Sequence[str]) -> dict[str, StoredOutcome]:
    rows = await connection.fetch(statement(__name__, "read_outcomes"), task_ids)
    return {row["id"]: StoredOutcome(*row) for row in rows}


async def read_info(
    connection: asyncpg.Connection,
    task_id: str,
    *,
    include_result: bool = False,
    include_failed_reason: bool = False,
    include_attempts: bool = False,
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
    """Read the attempts of a task, newest first."""
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


_FINAL: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "PAUSED"})
_WITHOUT_ERROR: Final[dict[str, tuple[BuiltInTaskCode, str]]] = {
    "COMPLETED": (RetrievalCode.RESULT_NOT_AVAILABLE, "the workflow completed, but its row has no result"),
    "FAILED": (OutcomeCode.WORKFLOW_FAILED, "the workflow failed without an error"),
    "CANCELLED": (OutcomeCode.WORKFLOW_CANCELLED, "the workflow was cancelled"),
    "PAUSED": (OutcomeCode.WORKFLOW_PAUSED, "the workflow is paused, and continues when it is resumed"),
}


@dataclass(frozen=True, slots=True)
class WorkflowOutcome:
    """A workflow's row as far as a wait for its result needs it."""

    workflow_id: str
    status: str
    stored: str | None
    error: str | None

    @property
    def is_final(self) -> bool:
        """True if no automatic change follows, which includes PAUSED, although it may be resumed."""
        return self.status in _FINAL

    def result(self, classes: Classes = OURS) -> TaskResult[Any, TaskError]:
        """The result of the workflow; only for a final one. Never raises, also for a damaged row."""
        if self.status == WorkflowStatus.COMPLETED and self.stored is not None:
            return load_task_result(self.stored, classes)
        if self.status in (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED) and self.error is not None:
            return TaskResult(err=load_task_error(self.error, classes))
        code, message = _WITHOUT_ERROR[self.status]
        return TaskResult(err=TaskError(error_code=code, message=message, data={"workflow_id": self.workflow_id}))


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """One node's row; `status` is None if the workflow has no such node."""

    index: int | None
    status: str | None
    stored: str | None


async def read_workflow_outcomes(
    connection: asyncpg.Connection, workflow_ids: Sequence[str]
) -> dict[str, WorkflowOutcome]:
    rows = await connection.fetch(statement(__name__, "read_workflow_outcomes"), workflow_ids)
    return {row["id"]: WorkflowOutcome(*row) for row in rows}


async def read_nodes(
    connection: asyncpg.Connection, workflow_id: str, classes: Classes
) -> list[WorkflowTaskInfo] | None:
    """Read the nodes in their order; None if there is no such workflow. ValueError for an unknown status."""
    rows = await connection.fetch(statement(__name__, "read_workflow_nodes"), workflow_id)
    return [_info(row, classes) for row in rows if row["task_index"] is not None] if rows else None


async def read_node(connection: asyncpg.Connection, workflow_id: str, node_id: str) -> NodeOutcome | None:
    """Read one node by its node_id; None if there is no such workflow."""
    rows = await connection.fetch(statement(__name__, "read_workflow_node"), workflow_id, node_id)
    return NodeOutcome(*rows[0]) if rows else None


def _info(row: asyncpg.Record, classes: Classes) -> WorkflowTaskInfo:
    summary = row["sub_workflow_summary"]
    return WorkflowTaskInfo(
        node_id=row["node_id"],
        index=row["task_index"],
        name=row["task_name"],
        status=WorkflowTaskStatus(row["status"]),
        result=None if row["result"] is None else load_task_result(row["result"], classes),
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        sub_workflow_id=row["sub_workflow_id"],
        sub_workflow_summary=None if summary is None else load_summary(summary, classes),
    )
