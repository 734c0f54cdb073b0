"""One task that was sent inside `inline()`: the values that its row would have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import load_args, load_kwargs
from horsies.domain.codes import OutcomeCode
from horsies.domain.plan import split_injection
from horsies.domain.states import TASK_TERMINAL_STATES, TaskAttemptOutcome, TaskStatus
from horsies.store.reading import StoredOutcome, TaskAttemptInfo
from horsies.task.current import CurrentTask
from horsies.workflow.context import meta_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from horsies.domain.codec.classes import Classes
    from horsies.domain.task_result import TaskError, TaskResult
    from horsies.store.enqueue import EnqueueRequest
    from horsies.task.parameters import Parameters
    from horsies.testing.here import EndedRun


@dataclass(slots=True, eq=False)
class InlineTask:
    """The call, options and state of a task. Read-only for tests; `status` changes as the task runs."""

    request: EnqueueRequest
    due: datetime
    max_retries: int
    classes: Classes
    """Those that the application declares."""
    parameters: Parameters | None = None
    """Of its function; None for a name that no task has."""
    status: TaskStatus = TaskStatus.PENDING
    retry_count: int = 0
    next_retry_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error_code: str | None = None
    failed_reason: str | None = None
    attempts: list[TaskAttemptInfo] = field(default_factory=list)
    """Oldest first."""
    stored: str | None = None
    """The text of the result column."""

    @property
    def task_id(self) -> str:
        return self.request.task_id

    @property
    def task_name(self) -> str:
        return self.request.task_name

    @property
    def queue_name(self) -> str:
        return self.request.queue_name

    @property
    def args(self) -> list[Any]:
        """The arguments that the task receives: converted to JSON and back, and of the types of its signature."""
        return list(self._call()[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self._call()[1])

    def _call(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        classes_for = (lambda _: self.classes) if self.parameters is None else self.parameters.classes_for
        args = load_args(self.request.args_json, classes_for).unwrap()
        kwargs = split_injection(load_kwargs(self.request.kwargs_json, classes_for).unwrap()).kwargs
        return (args, kwargs) if self.parameters is None else self.parameters.from_stored(args, kwargs)

    @property
    def is_final(self) -> bool:
        return self.status in TASK_TERMINAL_STATES

    @property
    def result(self) -> TaskResult[Any, TaskError] | None:
        """The result; None before its end."""
        return self.outcome.result(self.classes) if self.is_final else None

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome(self.task_id, self.status.value, self.stored, self.error_code, None)

    def current(self) -> CurrentTask:
        """Return what `current_task()` returns in its next run."""
        request, attempt = self.request, self.retry_count + 1
        times, place = (request.sent_at, request.good_until), meta_in(request.kwargs_json)
        return CurrentTask(self.task_id, self.task_name, attempt, self.queue_name, *times, place)

    def start(self, now: datetime) -> None:
        self.status, self.started_at = TaskStatus.RUNNING, now

    def unstart(self) -> None:
        """Put it back: the test was cancelled in the middle of it."""
        self.status, self.started_at = TaskStatus.PENDING, None

    def expire(self, now: datetime) -> None:
        self.status, self.ended_at, self.error_code = TaskStatus.EXPIRED, now, OutcomeCode.TASK_EXPIRED.value

    def cancel(self, stored: str, now: datetime) -> None:
        self.status, self.ended_at, self.stored = TaskStatus.CANCELLED, now, stored
        self.error_code = OutcomeCode.TASK_CANCELLED.value

    def end(self, ended: EndedRun, now: datetime) -> None:
        self._add_attempt(ended, now, will_retry=False)
        self.status = TaskStatus.COMPLETED if ended.ok else TaskStatus.FAILED
        self.ended_at, self.error_code, self.stored = now, ended.error_code, ended.stored
        self.failed_reason = ended.error_message or ended.error_code

    def wait_for_retry(self, ended: EndedRun, now: datetime, due: datetime) -> None:
        self._add_attempt(ended, now, will_retry=True)
        self.status, self.retry_count = TaskStatus.PENDING, self.retry_count + 1
        self.due = self.next_retry_at = due
        self.started_at = None

    def _add_attempt(self, ended: EndedRun, now: datetime, *, will_retry: bool) -> None:
        assert self.started_at is not None
        self.attempts.append(
            TaskAttemptInfo(
                task_id=self.task_id,
                attempt=self.retry_count + 1,
                outcome=TaskAttemptOutcome.COMPLETED if ended.ok else TaskAttemptOutcome.FAILED,
                will_retry=will_retry,
                started_at=self.started_at,
                finished_at=now,
                error_code=ended.error_code,
                error_message=ended.error_message,
            )
        )
