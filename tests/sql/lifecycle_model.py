"""A model of the task lifecycle in memory, which tests compare with the tables after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from horsies.domain.states import TASK_TERMINAL_STATES, TaskAttemptOutcome, TaskStatus
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.finishing import OutcomeKind

S, K = TaskStatus, OutcomeKind

CAPPED, CAP, CLUSTER_CAP = "capped", 2, 5
PLAIN = "plain"

RETRIED = (TaskAttemptOutcome.FAILED, True)
INTERRUPTED = (TaskAttemptOutcome.WORKER_FAILURE, True)


@dataclass(slots=True)
class Row:
    """The expected row of a task. Times are only known as passed or an hour ahead."""

    id: str
    queue: str
    due: bool
    deadline_ahead: bool
    max_retries: int
    large: bool = False
    crash_retried: bool = False
    deadline_passed: bool = False
    status: TaskStatus = S.PENDING
    retry_count: int = 0
    token: Token | None = None
    lease_runs: bool = False
    counts: bool = True
    pid: int | None = None
    attempts: list[tuple[TaskAttemptOutcome, bool]] = field(default_factory=list)
    ends: int = 0
    reopened: int = 0

    @property
    def claimable(self) -> bool:
        return self.due and not self.deadline_passed

    @property
    def in_flight(self) -> bool:
        """Whether it counts under the caps."""
        return self.status is S.RUNNING or (self.status is S.CLAIMED and self.counts)

    def claim(self, token: Token, lease_runs: bool) -> None:
        self.status, self.token, self.lease_runs, self.counts = S.CLAIMED, token, lease_runs, True

    def run(self, pid: int) -> None:
        self.status, self.lease_runs, self.pid = S.RUNNING, False, pid

    def wait(self) -> None:
        self.status, self.token, self.lease_runs, self.pid = S.PENDING, None, False, None

    def end(self, status: TaskStatus) -> None:
        """The token stays, and shows which worker had the task last."""
        self.status, self.lease_runs, self.pid = status, False, None
        self.ends += 1

    def start(self, pid: int, *, fits: bool) -> str:
        if self.status is S.RUNNING:
            self.run(pid)
            return "started again"
        if self.status is not S.CLAIMED:
            return "stale"
        if self.deadline_passed:
            self.end(S.EXPIRED)
            return "expired"
        if not fits:
            return "waiting"
        if not self.lease_runs:
            return "stale"
        self.run(pid)
        return "started"

    def finish(self, kind: OutcomeKind, *, soon: bool) -> TaskStatus | None:
        """The status that a finish leads to, None if it is refused; a retry is due soon, or after any deadline."""
        if self.status is not S.RUNNING:
            return None
        if kind is K.NOT_BEGUN:
            self.wait()
            return self.status
        too_late = self.deadline_passed or (self.deadline_ahead and not soon)
        if kind is K.INTERRUPT_REQUEUE:
            self._again(INTERRUPTED)
            self.max_retries += 1
        elif kind is K.RETRY and self.retry_count < self.max_retries and not too_late:
            self._again(RETRIED)
            self.due = soon
        else:
            outcome = TaskAttemptOutcome.FAILED if kind is K.RETRY else TaskAttemptOutcome(kind.value)
            self.attempts.append((outcome, False))
            self.end(S.COMPLETED if kind is K.COMPLETED else S.FAILED)
        return self.status

    def crash(self) -> None:
        """A sweep finds no sign of life; if the task may run again, it is due after any deadline."""
        too_late = self.deadline_passed or self.deadline_ahead
        if self.crash_retried and self.retry_count < self.max_retries and not too_late:
            self._again(RETRIED)
            self.due = False
        else:
            self.attempts.append((TaskAttemptOutcome.FAILED, False))
            self.end(S.FAILED)

    def reopen(self) -> None:
        """An operator requeues the task: numbering continues after the last attempt, and a running one is its last."""
        if self.status is S.RUNNING:
            self.attempts.append(INTERRUPTED)
        self.reopened += self.status in TASK_TERMINAL_STATES
        if len(self.attempts) > self.retry_count:
            self.max_retries += len(self.attempts) - self.retry_count
            self.retry_count = len(self.attempts)
        self.deadline_ahead = self.deadline_passed = False
        self.due = True
        self.wait()

    def _again(self, attempt: tuple[TaskAttemptOutcome, bool]) -> None:
        self.attempts.append(attempt)
        self.retry_count += 1
        self.wait()


@dataclass(slots=True)
class Model:
    """`place` is a task's position in the order of its queue, as the table has it."""

    place: Callable[[str], tuple[int, datetime, str]]
    rows: dict[str, Row] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)

    def current(self, token: Token) -> Row | None:
        """The row that this token may still write to."""
        row = self.rows[token.task_id]
        return row if row.token == token else None

    def waiting(self, queue: str) -> list[Row]:
        """What a claim of this queue may take, in its order."""
        rows = [row for row in self.rows.values() if row.queue == queue and row.status is S.PENDING and row.claimable]
        return [] if queue in self.paused else sorted(rows, key=lambda row: self.place(row.id))

    def expired(self, queues: list[str]) -> list[Row]:
        """Claims whose lease has run out."""
        return [
            row for row in self.rows.values() if row.queue in queues and row.status is S.CLAIMED and not row.lease_runs
        ]

    def in_flight(self, queue: str | None = None) -> int:
        return sum(row.in_flight for row in self.rows.values() if queue in (None, row.queue))

    def under_caps(self, budget: int, *, hard: bool) -> list[Row]:
        """What a claim under caps should return, from the capped queue first; without `hard` under no cluster cap.

        If a cap has less room than wanted, the claim releases expired claims.
        """
        busy = [queue for queue in (CAPPED, PLAIN) if queue not in self.paused and self._has_pending(queue)]
        room = budget
        if busy and hard:
            room = self._room(None, CLUSTER_CAP, room)
        chosen: list[Row] = []
        for queue in busy:
            free = room - len(chosen)
            if free <= 0:
                break
            if queue == CAPPED:
                free = self._room(CAPPED, CAP, free)
            chosen += self.waiting(queue)[: max(free, 0)]
        return chosen

    def _has_pending(self, queue: str) -> bool:
        return any(row.queue == queue and row.status is S.PENDING for row in self.rows.values())

    def _room(self, queue: str | None, cap: int, wanted: int) -> int:
        if cap - self.in_flight(queue) < wanted:
            for row in self.expired([CAPPED, PLAIN] if queue is None else [queue]):
                if row.counts:
                    row.wait()
        return min(wanted, cap - self.in_flight(queue))

    def unfit(self, tokens: list[Token], caps: dict[str, int]) -> set[Token]:
        """The tokens of one worker whose start exceeds their caps."""
        unfit: set[Token] = set()
        for queue, cap in caps.items():
            asked = {token.task_id for token in tokens if self.rows[token.task_id].queue == queue}
            others = sum(
                row.status is S.RUNNING or (row.in_flight and row.id not in asked)
                for row in self.rows.values()
                if row.queue == queue
            )
            claimed = [self.rows[task_id] for task_id in asked if self.rows[task_id].status is S.CLAIMED]
            first = sorted(claimed, key=lambda row: self.place(row.id))[: max(cap - others, 0)]
            turned_away = {row.id for row in claimed if row not in first}
            unfit |= {token for token in tokens if token.task_id in turned_away}
        return unfit
