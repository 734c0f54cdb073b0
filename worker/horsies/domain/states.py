"""The states as data: which transitions exist, by which verb, by whom, under which guard.

The statements of the store, the property tests, the operator actions and the console's legend all use these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Generic, TypeVar


class TaskStatus(Enum):
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
    RERUN = "rerun"
    UNDO = "undo"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    INTERRUPT = "interrupt"
    ADVANCE = "advance"
    RECONCILE = "reconcile"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip"
    COMPLETE = "complete"


StateT = TypeVar("StateT", bound=Enum)


@dataclass(frozen=True, slots=True)
class Transition(Generic[StateT]):
    """One transition. `source` is None for a row that does not exist yet."""

    source: StateT | None
    verb: Verb
    target: StateT
    who: str
    guard: str


_T, _V = TaskStatus, Verb
_TOKEN = "the claim token still matches"  # noqa: S105 - no secret: claimed_by_worker_id and claimed_at
_UNTOUCHED = "the row is as it was left"

TASK_TRANSITIONS: tuple[Transition[TaskStatus], ...] = (
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
    Transition(_T.PENDING, _V.UNDO, _T.PENDING, "operator", f"{_UNTOUCHED} by retry-now"),
    Transition(_T.PENDING, _V.UNDO, _T.COMPLETED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.FAILED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.CANCELLED, "operator", f"{_UNTOUCHED} by a requeue"),
    Transition(_T.PENDING, _V.UNDO, _T.EXPIRED, "operator", f"{_UNTOUCHED} by a requeue"),
)

_N = WorkflowTaskStatus
_NOT_TERMINAL = "the node is not terminal"

NODE_TRANSITIONS: tuple[Transition[WorkflowTaskStatus], ...] = (
    Transition(None, _V.ENQUEUE, _N.PENDING, "workflow start", "the node has dependencies"),
    Transition(None, _V.ENQUEUE, _N.READY, "workflow start", "the node has no dependencies"),
    Transition(_N.PENDING, _V.ADVANCE, _N.READY, "advance, reconcile", "the join is satisfied, the workflow RUNNING"),
    Transition(_N.PENDING, _V.ADVANCE, _N.SKIPPED, "advance, reconcile", "the join cannot be satisfied"),
    Transition(_N.READY, _V.ENQUEUE, _N.ENQUEUED, "advance, reconcile", "the workflow is RUNNING, no task linked"),
    Transition(_N.ENQUEUED, _V.START, _N.RUNNING, "worker, advance", "its task, or its child workflow, has started"),
    Transition(_N.ENQUEUED, _V.FINISH, _N.COMPLETED, "advance, reconcile", _NOT_TERMINAL),
    Transition(_N.ENQUEUED, _V.FINISH, _N.FAILED, "advance, reconcile", _NOT_TERMINAL),
    Transition(_N.RUNNING, _V.FINISH, _N.COMPLETED, "advance, reconcile", _NOT_TERMINAL),
    Transition(_N.RUNNING, _V.FINISH, _N.FAILED, "advance, reconcile", _NOT_TERMINAL),
    Transition(_N.READY, _V.FAIL, _N.FAILED, "advance", "its task cannot be enqueued"),
    Transition(_N.PENDING, _V.CANCEL, _N.SKIPPED, "workflow cancel", "not started"),
    Transition(_N.READY, _V.CANCEL, _N.SKIPPED, "workflow cancel", "not started"),
    Transition(_N.ENQUEUED, _V.CANCEL, _N.SKIPPED, "workflow cancel", "its task has not started"),
    Transition(_N.RUNNING, _V.CANCEL, _N.FAILED, "workflow cancel", "its task, or child workflow, has not ended"),
    Transition(_N.READY, _V.RECONCILE, _N.READY, "reconcile", "no worker has built its child workflow"),
    Transition(_N.ENQUEUED, _V.RECONCILE, _N.READY, "reconcile", "its child workflow was never made"),
    *(
        Transition(source, _V.SKIP, _N.SKIPPED, "operator", "the row is as the operator saw it")
        for source in (_N.PENDING, _N.READY, _N.ENQUEUED, _N.RUNNING)
    ),
    *(
        Transition(source, _V.COMPLETE, _N.COMPLETED, "operator", "the row is as the operator saw it")
        for source in (_N.PENDING, _N.READY, _N.ENQUEUED, _N.RUNNING, _N.FAILED, _N.SKIPPED)
    ),
    Transition(_N.FAILED, _V.REQUEUE, _N.READY, "operator", "it has no dependencies; a fresh task follows"),
    Transition(_N.FAILED, _V.REQUEUE, _N.PENDING, "operator", "it has dependencies; a fresh task follows"),
    Transition(_N.FAILED, _V.REQUEUE, _N.ENQUEUED, "operator", "its task was requeued"),
    Transition(_N.FAILED, _V.REQUEUE, _N.RUNNING, "operator", "its child workflow goes on"),
    Transition(_N.SKIPPED, _V.REQUEUE, _N.PENDING, "operator", "an ancestor is run again"),
    Transition(_N.SKIPPED, _V.REQUEUE, _N.ENQUEUED, "operator", "its task was requeued"),
)

_W = WorkflowStatus

WORKFLOW_TRANSITIONS: tuple[Transition[WorkflowStatus], ...] = (
    Transition(None, _V.ENQUEUE, _W.RUNNING, "producer, scheduler, parent workflow", "the id is new"),
    Transition(_W.RUNNING, _V.FINISH, _W.COMPLETED, "advance, reconcile", "every node terminal, success rule met"),
    Transition(_W.RUNNING, _V.FINISH, _W.FAILED, "advance, reconcile", "every node terminal, success rule not met"),
    Transition(_W.RUNNING, _V.PAUSE, _W.PAUSED, "user, operator, on_error", "still RUNNING"),
    Transition(_W.PAUSED, _V.RESUME, _W.RUNNING, "user, operator", "still PAUSED"),
    Transition(_W.PENDING, _V.CANCEL, _W.CANCELLED, "user, operator", "not terminal"),
    Transition(_W.RUNNING, _V.CANCEL, _W.CANCELLED, "user, operator", "not terminal"),
    Transition(_W.PAUSED, _V.CANCEL, _W.CANCELLED, "user, operator", "not terminal"),
    Transition(_W.FAILED, _V.REQUEUE, _W.RUNNING, "operator", "a node of it is opened again"),
    Transition(_W.PAUSED, _V.REQUEUE, _W.RUNNING, "operator", "retry from the failed nodes"),
    Transition(_W.FAILED, _V.COMPLETE, _W.RUNNING, "operator", "a node of it is completed by hand"),
)


def targets(table: tuple[Transition[StateT], ...], source: StateT | None, verb: Verb) -> frozenset[StateT]:
    """The states that `verb` may lead to from `source`; empty means that it is refused there."""
    return frozenset(arrow.target for arrow in table if arrow.source is source and arrow.verb is verb)
