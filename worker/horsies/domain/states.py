"""The states as data, and for tasks which transitions exist: by which verb, by whom, under which guard.

The eligibility of operator actions is read from the table of transitions, and the property tests hold every change
against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"

    @property
    def is_terminal(self) -> bool:
        return self in TASK_TERMINAL_STATES


TASK_TERMINAL_STATES: frozenset[TaskStatus] = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.EXPIRED}
)


class TaskAttemptOutcome(StrEnum):
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WORKER_FAILURE = "WORKER_FAILURE"


class WorkflowStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in WORKFLOW_TERMINAL_STATES


WORKFLOW_TERMINAL_STATES: frozenset[WorkflowStatus] = frozenset(
    {WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED}
)


class WorkflowTaskStatus(StrEnum):
    PENDING = "PENDING"
    READY = "READY"
    ENQUEUED = "ENQUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"

    @property
    def is_terminal(self) -> bool:
        return self in WORKFLOW_TASK_TERMINAL_STATES


WORKFLOW_TASK_TERMINAL_STATES: frozenset[WorkflowTaskStatus] = frozenset(
    {WorkflowTaskStatus.COMPLETED, WorkflowTaskStatus.FAILED, WorkflowTaskStatus.SKIPPED}
)


class OnError(StrEnum):
    FAIL = "fail"
    PAUSE = "pause"


TargetKind: TypeAlias = Literal["task", "workflow", "node", "worker", "queue", "schedule", "session", "operation"]
"""The kinds of rows that a manual verb changes."""


class Verb(StrEnum):
    """One verb has one name in SQL, code, log, test and console."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    START = "start"
    FINISH = "finish"
    RETRY = "retry"
    RELEASE = "release"
    REQUEUE = "requeue"
    RETRY_NOW = "retry-now"
    REPRIORITISE = "reprioritise"
    MOVE = "move"
    RESCHEDULE = "reschedule"
    RERUN = "rerun"
    UNDO = "undo"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of a task. `source` is None for a row that does not exist yet."""

    source: TaskStatus | None
    verb: Verb
    target: TaskStatus
    who: str
    guard: str


_T, _V = TaskStatus, Verb
_TOKEN = "the claim token still matches"  # noqa: S105 - no secret: claimed_by_worker_id and claimed_at
_UNTOUCHED = "the row is as it was left"

TASK_TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, _V.ENQUEUE, _T.PENDING, "producer, scheduler, workflow", "the id is new"),
    Transition(_T.PENDING, _V.CLAIM, _T.CLAIMED, "worker", "due, not past good_until, caps free, nothing paused"),
    Transition(_T.PENDING, _V.CLAIM, _T.RUNNING, "worker", "as above, and one of its children waits for work"),
    Transition(_T.CLAIMED, _V.CLAIM, _T.CLAIMED, "any worker", "the lease has run out"),
    Transition(_T.CLAIMED, _V.START, _T.RUNNING, "worker", f"{_TOKEN}, in time, its workflow not paused"),
    Transition(_T.CLAIMED, _V.RELEASE, _T.PENDING, "worker, sweep, operator", f"{_TOKEN}; user code never started"),
    Transition(_T.RUNNING, _V.RELEASE, _T.PENDING, "worker", f"{_TOKEN}; user code never began"),
    Transition(_T.RUNNING, _V.FINISH, _T.COMPLETED, "worker", _TOKEN),
    Transition(_T.RUNNING, _V.FINISH, _T.FAILED, "worker", _TOKEN),
    Transition(_T.RUNNING, _V.RETRY, _T.PENDING, "worker, sweep", f"{_TOKEN}, the policy allows, budget remains"),
    Transition(_T.RUNNING, _V.INTERRUPT, _T.PENDING, "worker", f"{_TOKEN}, requeue_on_interrupt"),
    Transition(_T.RUNNING, _V.INTERRUPT, _T.FAILED, "worker", _TOKEN),
    Transition(_T.PENDING, _V.FAIL, _T.FAILED, "operator", "the row is as the operator saw it"),
    Transition(_T.CLAIMED, _V.FAIL, _T.FAILED, "worker, operator", f"{_TOKEN}, or the row is as the operator saw it"),
    Transition(_T.RUNNING, _V.FAIL, _T.FAILED, "sweep, operator", "beats stale, or the row is as the operator saw it"),
    Transition(_T.FAILED, _V.FAIL, _T.FAILED, "operator", "interrupted, and the row is as the operator saw it"),
    Transition(_T.PENDING, _V.CANCEL, _T.CANCELLED, "workflow, operator", "still PENDING"),
    Transition(_T.CLAIMED, _V.CANCEL, _T.CANCELLED, "workflow, operator", "still CLAIMED"),
    Transition(_T.RUNNING, _V.CANCEL, _T.CANCELLED, "operator", "the row is as the operator saw it"),
    Transition(_T.PENDING, _V.EXPIRE, _T.EXPIRED, "sweep, operator", "good_until has passed"),
    Transition(_T.CLAIMED, _V.EXPIRE, _T.EXPIRED, "worker", f"{_TOKEN}, good_until has passed"),
    Transition(_T.PENDING, _V.RETRY_NOW, _T.PENDING, "operator", "the row is as the operator saw it, and not due"),
    Transition(_T.PENDING, _V.REPRIORITISE, _T.PENDING, "operator", "it waits, and no operator has changed it since"),
    Transition(_T.PENDING, _V.MOVE, _T.PENDING, "operator", "it waits, and no operator has changed it since"),
    Transition(_T.PENDING, _V.RESCHEDULE, _T.PENDING, "operator", "as above, and the time is before its good_until"),
    Transition(None, _V.RERUN, _T.PENDING, "operator", "its original has ended and is as the operator saw it"),
    Transition(_T.CLAIMED, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.RUNNING, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.COMPLETED, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.FAILED, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.CANCELLED, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.EXPIRED, _V.REQUEUE, _T.PENDING, "operator", "the row is as the operator saw it"),
    Transition(_T.FAILED, _V.UNDO, _T.PENDING, "operator", f"{_UNTOUCHED}; it had not begun"),
    Transition(_T.FAILED, _V.UNDO, _T.FAILED, "operator", f"{_UNTOUCHED}; it was interrupted"),
    Transition(_T.CANCELLED, _V.UNDO, _T.PENDING, "operator", f"{_UNTOUCHED}; it had not begun"),
    Transition(_T.PENDING, _V.UNDO, _T.PENDING, "operator", f"{_UNTOUCHED} by a verb for waiting tasks"),
    Transition(_T.PENDING, _V.UNDO, _T.COMPLETED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.FAILED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.CANCELLED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.EXPIRED, "operator", f"{_UNTOUCHED} by a requeue"),
)


class Beats(NamedTuple):
    """The interval of a task's signs of life, and the silence after which it is stale, in milliseconds."""

    every_ms: int
    stale_ms: int


USUAL_CLAIM: Final = Beats(30_000, 120_000)
USUAL_RUN: Final = Beats(30_000, 300_000)
"""The defaults of RecoveryConfig, for who has none: the first rows of the console do not wait for pydantic."""
