"""The states as data, and the transitions of tasks: the verb, the actors and the guard of each.

The eligibility of operator actions is read from the table of transitions; property tests compare every change with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias


class _Status(StrEnum):
    @property
    def is_terminal(self) -> bool:
        """True for a state that only an operator can end."""
        return self.value in _ENDED


_ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "EXPIRED", "SKIPPED"})


class TaskStatus(_Status):
    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class TaskAttemptOutcome(StrEnum):
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    WORKER_FAILURE = "WORKER_FAILURE"


class WorkflowStatus(_Status):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"


class WorkflowTaskStatus(_Status):
    PENDING = "PENDING"
    READY = "READY"
    ENQUEUED = "ENQUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


TASK_TERMINAL_STATES = frozenset(status for status in TaskStatus if status.is_terminal)
WORKFLOW_TERMINAL_STATES = frozenset(status for status in WorkflowStatus if status.is_terminal)
WORKFLOW_TASK_TERMINAL_STATES = frozenset(status for status in WorkflowTaskStatus if status.is_terminal)


class OnError(StrEnum):
    FAIL = "fail"
    PAUSE = "pause"


TargetKind: TypeAlias = Literal["task", "workflow", "node", "worker", "queue", "schedule", "session", "operation"]
"""The kinds of rows that a manual verb changes."""


class TransitionVerb(StrEnum):
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


class Mover(StrEnum):
    """The actors that make transitions. WORKFLOW: a cancelled workflow, or a node that is skipped or completed."""

    PRODUCER = "producer"
    SCHEDULER = "scheduler"
    WORKFLOW = "workflow"
    WORKER = "worker"
    SWEEP = "sweep"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of a task. `source` is None for a row that does not exist yet."""

    source: TaskStatus | None
    verb: TransitionVerb
    target: TaskStatus
    who: tuple[Mover, ...]
    guard: str


_T, _V = TaskStatus, TransitionVerb
_PRODUCER, _SCHEDULER, _WORKFLOW, _WORKER, _SWEEP, _OPERATOR = Mover
_TOKEN = "the claim token still matches"  # noqa: S105 - no secret: claimed_by_worker_id and claimed_at
_SEEN = "the row is as the operator saw it"
_UNTOUCHED = "the row is as it was left"

TASK_TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, _V.ENQUEUE, _T.PENDING, (_PRODUCER, _SCHEDULER, _WORKFLOW), "the id is new"),
    Transition(_T.PENDING, _V.CLAIM, _T.CLAIMED, (_WORKER,), "due, not past good_until, caps free, nothing paused"),
    Transition(_T.PENDING, _V.CLAIM, _T.RUNNING, (_WORKER,), "as above, and one of its children waits for work"),
    Transition(_T.CLAIMED, _V.START, _T.RUNNING, (_WORKER,), f"{_TOKEN}, in time, its workflow not paused"),
    Transition(_T.CLAIMED, _V.RELEASE, _T.PENDING, (_WORKER, _SWEEP, _OPERATOR), f"{_TOKEN}, or the lease has run out"),
    Transition(_T.RUNNING, _V.RELEASE, _T.PENDING, (_WORKER,), f"{_TOKEN}; user code was never called"),
    Transition(_T.RUNNING, _V.FINISH, _T.COMPLETED, (_WORKER,), _TOKEN),
    Transition(_T.RUNNING, _V.FINISH, _T.FAILED, (_WORKER,), _TOKEN),
    Transition(_T.RUNNING, _V.RETRY, _T.PENDING, (_WORKER, _SWEEP), f"{_TOKEN}, the policy allows, budget remains"),
    Transition(_T.RUNNING, _V.INTERRUPT, _T.PENDING, (_WORKER,), f"{_TOKEN}, requeue_on_interrupt"),
    Transition(_T.RUNNING, _V.INTERRUPT, _T.FAILED, (_WORKER,), _TOKEN),
    Transition(_T.PENDING, _V.FAIL, _T.FAILED, (_OPERATOR,), _SEEN),
    Transition(_T.CLAIMED, _V.FAIL, _T.FAILED, (_OPERATOR,), _SEEN),
    Transition(_T.RUNNING, _V.FAIL, _T.FAILED, (_SWEEP, _OPERATOR), f"beats stale, or {_SEEN}"),
    Transition(_T.FAILED, _V.FAIL, _T.FAILED, (_OPERATOR,), f"interrupted, and {_SEEN}"),
    Transition(_T.PENDING, _V.CANCEL, _T.CANCELLED, (_WORKFLOW, _OPERATOR), "still PENDING"),
    Transition(_T.CLAIMED, _V.CANCEL, _T.CANCELLED, (_WORKFLOW, _OPERATOR), "still CLAIMED"),
    Transition(_T.RUNNING, _V.CANCEL, _T.CANCELLED, (_WORKFLOW, _OPERATOR), f"still RUNNING, or {_SEEN}"),
    Transition(_T.PENDING, _V.EXPIRE, _T.EXPIRED, (_SWEEP, _OPERATOR), "good_until has passed"),
    Transition(_T.CLAIMED, _V.EXPIRE, _T.EXPIRED, (_WORKER,), f"{_TOKEN}, good_until has passed"),
    Transition(_T.PENDING, _V.RETRY_NOW, _T.PENDING, (_OPERATOR,), f"{_SEEN}, and not due"),
    Transition(_T.PENDING, _V.REPRIORITISE, _T.PENDING, (_OPERATOR,), "it waits, and no operator has changed it since"),
    Transition(_T.PENDING, _V.MOVE, _T.PENDING, (_OPERATOR,), "it waits, and no operator has changed it since"),
    Transition(_T.PENDING, _V.RESCHEDULE, _T.PENDING, (_OPERATOR,), "as above, and the time is before its good_until"),
    Transition(None, _V.RERUN, _T.PENDING, (_OPERATOR,), "its original has ended and is as the operator saw it"),
    *(
        Transition(source, _V.REQUEUE, _T.PENDING, (_OPERATOR,), _SEEN)
        for source in (_T.CLAIMED, _T.RUNNING, _T.COMPLETED, _T.FAILED, _T.CANCELLED, _T.EXPIRED)
    ),
    Transition(_T.FAILED, _V.UNDO, _T.PENDING, (_OPERATOR,), f"{_UNTOUCHED}; it had not begun"),
    Transition(_T.FAILED, _V.UNDO, _T.FAILED, (_OPERATOR,), f"{_UNTOUCHED}; it was interrupted"),
    Transition(_T.CANCELLED, _V.UNDO, _T.PENDING, (_OPERATOR,), f"{_UNTOUCHED}; it had not begun"),
    Transition(_T.PENDING, _V.UNDO, _T.PENDING, (_OPERATOR,), f"{_UNTOUCHED} by a verb for waiting tasks"),
    *(
        Transition(_T.PENDING, _V.UNDO, target, (_OPERATOR,), f"{_UNTOUCHED} by a requeue")
        for target in (_T.COMPLETED, _T.FAILED, _T.CANCELLED, _T.EXPIRED)
    ),
)


class BeatPolicy(NamedTuple):
    """The interval of a task's signs of life, and the silence after which it is stale, in milliseconds."""

    every_ms: int
    stale_ms: int


USUAL_CLAIM: Final = BeatPolicy(30_000, 120_000)
USUAL_RUN: Final = BeatPolicy(30_000, 300_000)
"""The defaults of RecoveryConfig, for who has none: the first rows of the console do not wait for pydantic."""
