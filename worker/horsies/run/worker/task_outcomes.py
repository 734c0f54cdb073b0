"""From the end of a run to the outcome that is stored: its kind, whether it is retried, and what it had written."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from horsies.domain.codec import dump_task_result, with_retries_spent
from horsies.domain.codes import CHILD_ENDED, OperationalErrorCode, StopCode
from horsies.domain.masking import mask
from horsies.domain.retry import RETRIES_SPENT, RetryAt, RetryRule, decide
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.contract import TASK_INTERRUPTED

if TYPE_CHECKING:
    from horsies.run.contract import ChildResult
    from horsies.run.pool.output_rings import OutputRings
    from horsies.run.settings import Identity
    from horsies.run.worker.in_flight import InFlightTask

_STOPS = frozenset(StopCode)
"""Codes of runs that the worker has stopped: their attempt has a reason of the worker, as that of a crash."""


class TaskOutcomes:
    """`kept_bytes`: how much of the output of a failure is kept."""

    def __init__(self, identity: Identity, outputs: OutputRings, kept_bytes: int) -> None:
        self._identity = identity
        self._outputs = outputs
        self._kept_bytes = kept_bytes
        self._rng = random.Random()  # noqa: S311 - jitter

    def of_result(self, entry: InFlightTask, result: ChildResult) -> Outcome:
        """A child has reported a result."""
        if result.status == "ok":
            outcome = Outcome(entry.task.token, OutcomeKind.COMPLETED, result.result_json)
        else:
            reason = result.error_message if result.error_code in _STOPS else None
            outcome = self._failure(entry, result.result_json, result.error_code, result.error_message, reason)
        return outcome.traced(result.span, entry.task.task_options)

    def of_crash(self, entry: InFlightTask, how: str) -> Outcome:
        """The child died under it: this is the failure of this task; other jobs of the child are not concerned."""
        who = self._identity
        data = {"worker_id": who.worker_id, "worker_hostname": who.hostname, "how": how}
        return self._crash(entry, f"{CHILD_ENDED}{how}", data)

    def of_lost_commit(self, entry: InFlightTask) -> Outcome:
        message = "the database lost the commit of its outcome, and its worker no longer had it in memory"
        return self._crash(entry, message, None)

    def of_interrupt(self, entry: InFlightTask, *, began: bool) -> Outcome:
        """The shutdown stopped it: requeued if the task allows that, else it waits for an operator's decision.

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
        decision = decide(
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
