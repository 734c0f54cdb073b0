"""Outcomes, from the end of a run until they are stored: their kind, their retry, their output."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from horsies.domain.codec import dump_task_result, with_retries_spent
from horsies.domain.codes import CHILD_ENDED, OperationalErrorCode, StopCode
from horsies.domain.masking import mask
from horsies.domain.retry import RETRIES_SPENT, RetryAt, RetryRule, decide_retry
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.contract import TASK_INTERRUPTED
from horsies.run.events import one_line
from horsies.run.loops import Wake
from horsies.run.worker.in_flight import InFlightTask, Stage

if TYPE_CHECKING:
    from horsies.lifecycle.claim_token import LockHolder, Token
    from horsies.run.contract import ChildResult
    from horsies.run.events import Events
    from horsies.run.pool.output import OutputRings
    from horsies.run.settings import Identity
    from horsies.run.worker.in_flight import InFlightTasks

_LARGEST_BATCH = 200
_LARGEST_BATCH_CHARS = 8_000_000
_MOST_WAITING_CHARS = 32_000_000  # of results; two of the largest that are stored
_OVERDUE_S = 2.0
_REJECTED_AGAIN_S = 30.0
_LOCKED_AGAIN_S = 0.5
_MOST_LOST_NAMED = 100
_STOPS = frozenset(StopCode)
"""Codes of runs that the worker has stopped: their attempt has a reason of the worker, as that of a crash."""


class OutcomeMaker:
    """Makes outcomes of the ends of runs, with the retry that follows and the output of a failure."""

    def __init__(self, identity: Identity, outputs: OutputRings, kept_bytes: int) -> None:
        self._identity = identity
        self._outputs = outputs
        self._kept_bytes = kept_bytes
        self._rng = random.Random()  # noqa: S311 - jitter

    def of_result(self, entry: InFlightTask, result: ChildResult) -> Outcome:
        """Return the outcome of a result that a child has reported."""
        if result.status == "ok":
            outcome = Outcome(entry.task.token, OutcomeKind.COMPLETED, result.result_json)
        else:
            reason = result.error_message if result.error_code in _STOPS else None
            outcome = self._failure(entry, result.result_json, result.error_code, result.error_message, reason)
        return outcome.traced(result.span, entry.task.task_options)

    def of_crash(self, entry: InFlightTask, how: str) -> Outcome:
        """Return the failure of a task whose child died under it."""
        who = self._identity
        data = {"worker_id": who.worker_id, "worker_hostname": who.hostname, "how": how}
        return self._crash(entry, f"{CHILD_ENDED}{how}", data)

    def of_lost_commit(self, entry: InFlightTask) -> Outcome:
        message = "the database lost the commit of its outcome, and its worker no longer had it in memory"
        return self._crash(entry, message, None)

    def of_interrupt(self, entry: InFlightTask, *, began: bool) -> Outcome:
        """Return the outcome of a task that the shutdown stopped: requeued if it allows that, else an operator decides.

        A task whose user code was not called is always requeued, without an attempt: nothing can run twice.
        """
        message, stored, output = "the worker was stopped while this task ran", None, self._output(entry)
        if not began:
            kind, output = OutcomeKind.NOT_BEGUN, None
        elif entry.requeue_on_interrupt:
            kind = OutcomeKind.INTERRUPT_REQUEUE
        else:
            kind = OutcomeKind.FAILED
            stored = dump_task_result(TaskResult(err=TaskError(error_code=TASK_INTERRUPTED, message=message)))
        return Outcome(entry.task.token, kind, stored, TASK_INTERRUPTED, message, message, output=output)

    def _crash(self, entry: InFlightTask, message: str, data: dict[str, str] | None) -> Outcome:
        code = OperationalErrorCode.WORKER_CRASHED
        stored = dump_task_result(TaskResult(err=TaskError(error_code=code, message=message, data=data)))
        return self._failure(entry, stored, code.value, message, failed_reason=message)

    def _failure(
        self,
        entry: InFlightTask,
        stored: str | None,
        code: str | None,
        message: str | None,
        failed_reason: str | None = None,
    ) -> Outcome:
        decision = decide_retry(
            RetryRule.from_text(entry.task.task_options),
            error_code=code,
            retry_count=entry.task.retry_count,
            max_retries=entry.task.max_retries,
            now=datetime.now(UTC),
            good_until=None,  # checked by the statement, with the database's clock
            rng=self._rng,
        )
        if decision == RETRIES_SPENT and stored is not None:
            task = entry.task
            stored = with_retries_spent(stored, retry_count=task.retry_count, max_retries=task.max_retries)
        delay_s = decision.delay_s if isinstance(decision, RetryAt) else None
        kind = OutcomeKind.FAILED if delay_s is None else OutcomeKind.RETRY
        return Outcome(entry.task.token, kind, stored, code, message, failed_reason, delay_s, self._output(entry))

    def _output(self, entry: InFlightTask) -> str | None:
        ring = self._outputs.of(entry.task.token)
        return None if ring is None else mask(ring.tail(self._kept_bytes)) or None


@dataclass(frozen=True, slots=True)
class WaitingOutcome:
    """An outcome to be stored."""

    outcome: Outcome
    duration_s: float | None
    ended_at: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        return len(self.outcome.result_json or "")


Batch: TypeAlias = "dict[InFlightTask, WaitingOutcome]"


class Outbox:
    """Every outcome from the end of its run until the database has stored it, or has reported its token as stale.

    Some are set aside, and tried again later: those that the database rejects, each for a reason of its own, and those
    whose rows other sessions have locked.
    """

    def __init__(
        self, identity: Identity, tasks: InFlightTasks, outputs: OutputRings, kept_bytes: int, events: Events
    ) -> None:
        self.wake = Wake()
        """Set when an outcome waits to be stored."""
        self.is_full = False
        """Set while too many results wait, until half of them are stored."""
        self._make = OutcomeMaker(identity, outputs, kept_bytes)
        self._tasks = tasks
        self._events = events
        self._outcomes: Batch = {}
        self._rejected: dict[InFlightTask, float] = {}
        self._locked: dict[InFlightTask, float] = {}
        """Times at which to try them again."""
        self._waiting_chars = 0

    @property
    def pending(self) -> int:
        """Number of outcomes that wait to be stored or for a locked row."""
        return len(self._outcomes) - len(self._rejected)

    @property
    def rejected(self) -> int:
        """Number of outcomes that the database has rejected; they are tried again from time to time."""
        return len(self._rejected)

    @property
    def locked(self) -> int:
        """Number of outcomes that wait for a locked row."""
        return len(self._locked)

    def result(self, entry: InFlightTask, result: ChildResult) -> None:
        """Take the result that a child has reported."""
        if entry.interrupted and result.error_code == TASK_INTERRUPTED:
            self.interrupted(entry, began=result.began)
        elif not result.began and result.error_code == OperationalErrorCode.WORKER_CRASHED.value:
            self.interrupted(entry, began=False)  # its lease had expired before
        else:
            self._add(entry, self._make.of_result(entry, result), result.duration_s if result.began else None)

    def crashed(self, entry: InFlightTask, how: str) -> None:
        """Take a task whose child has died."""
        if entry.interrupted:
            self.interrupted(entry)
        else:
            self._add(entry, self._make.of_crash(entry, how), None)

    def interrupted(self, entry: InFlightTask, *, began: bool = True) -> None:
        """Take a task that the shutdown has stopped."""
        self._add(entry, self._make.of_interrupt(entry, began=began), None)

    def commit_lost(self, entry: InFlightTask, outcome: Outcome | None) -> None:
        """Store it again, or count it as a crash: the database has lost the commit of its outcome."""
        self._events.warn(
            "commit of an outcome lost",
            task=entry.task.task_name,
            id=entry.task_id,
            now="it is stored again" if outcome else "it counts as a crash, as the outcome is no longer in memory",
        )
        self._add(entry, outcome or self._make.of_lost_commit(entry), None)

    def next_batch(self) -> Batch:
        """Return new outcomes, and locked ones that are due again; rejected ones only if there are none of these."""
        now = time.monotonic()
        due = (
            each
            for each in self._outcomes.items()
            if each[0] not in self._rejected and self._locked.get(each[0], now) <= now
        )
        batch: Batch = {}
        chars = 0
        for entry, ended in islice(due, _LARGEST_BATCH):
            chars += ended.size
            if batch and chars > _LARGEST_BATCH_CHARS:
                break
            batch[entry] = ended
        return batch or {entry: self._outcomes[entry] for entry, due_at in self._rejected.items() if due_at <= now}

    def is_postponed(self, entry: InFlightTask) -> bool:
        return entry in self._rejected or entry in self._locked

    def is_rejected(self, entry: InFlightTask) -> bool:
        return entry in self._rejected

    def is_locked(self, entry: InFlightTask) -> bool:
        return entry in self._locked

    def stored(self, entry: InFlightTask) -> None:
        """Forget it: the database has it, or does not want it any more."""
        if not self.is_postponed(entry):
            self._count(-self._outcomes[entry].size)
        del self._outcomes[entry]
        self._rejected.pop(entry, None)
        self._locked.pop(entry, None)

    def reject(self, entry: InFlightTask, error: Exception) -> None:
        """Set it aside: the database rejects it, and it must not delay the others."""
        if entry not in self._rejected:
            self._events.error("outcome rejected", task=entry.task.task_name, id=entry.task_id, error=one_line(error))
            self._leave_count(entry)
        self._rejected[entry] = time.monotonic() + _REJECTED_AGAIN_S

    def wait_for_lock(self, entry: InFlightTask, holder: LockHolder) -> None:
        """Set it aside: another session has locked its row."""
        if entry not in self._locked:
            self._events.warn(
                "outcome waits for a lock", task=entry.task.task_name, id=entry.task_id, locked_by=str(holder)
            )
            self._leave_count(entry)
        self._locked[entry] = time.monotonic() + _LOCKED_AGAIN_S
        asyncio.get_running_loop().call_later(_LOCKED_AGAIN_S, self.wake.set)

    def unlocked(self, entry: InFlightTask) -> None:
        """Take it back among the others, if its row was locked."""
        if self._locked.pop(entry, None) is not None:
            self._join_count(entry)

    def offer_rejected(self) -> None:
        """Try them a last time, before the worker ends."""
        for entry in list(self._rejected):
            del self._rejected[entry]
            self._join_count(entry)
        self.wake.set()

    def log_lost(self) -> list[str]:
        """Log the tasks whose outcomes are not stored when the worker ends, and return their ids."""
        if self._outcomes:
            self._events.warn("outcomes lost", count=len(self._outcomes), reason="the database did not take them")
        for entry in islice(self._outcomes, _MOST_LOST_NAMED):
            self._events.error("outcome lost", task=entry.task.task_name, id=entry.task_id)
        return [entry.task_id for entry in self._outcomes]

    def has_ended_before(self, moment: float) -> bool:
        """Return whether an outcome from before then waits, apart from those that are set aside."""
        return any(ended.ended_at <= moment and not self.is_postponed(entry) for entry, ended in self._outcomes.items())

    def overdue(self) -> list[Token]:
        """Return the tokens of outcomes that could not be stored for some time."""
        since = time.monotonic() - _OVERDUE_S
        return [entry.task.token for entry, outcome in self._outcomes.items() if outcome.ended_at < since]

    def _add(self, entry: InFlightTask, outcome: Outcome, duration_s: float | None) -> None:
        self._tasks.move(entry, Stage.FINISHING)
        self._outcomes[entry] = ended = WaitingOutcome(outcome, duration_s)
        self._count(ended.size)
        self.wake.set()

    def _leave_count(self, entry: InFlightTask) -> None:
        """Count it no longer, before it is set aside: it may stay for long."""
        if not self.is_postponed(entry):
            self._count(-self._outcomes[entry].size)

    def _join_count(self, entry: InFlightTask) -> None:
        """Count it again, after it was set aside."""
        if not self.is_postponed(entry):
            self._count(self._outcomes[entry].size)

    def _count(self, chars: int) -> None:
        self._waiting_chars += chars
        if self._waiting_chars > _MOST_WAITING_CHARS:
            self.is_full = True
        elif self._waiting_chars <= _MOST_WAITING_CHARS // 2:
            self.is_full = False
