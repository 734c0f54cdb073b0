"""The information that handles return about a task, its attempts, and the nodes of a workflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.domain.states import TaskAttemptOutcome, TaskStatus, WorkflowTaskStatus
    from horsies.domain.task_result import SubWorkflowSummary, TaskResult


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
