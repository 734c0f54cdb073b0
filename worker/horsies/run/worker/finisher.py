"""Stores outcomes: one statement at a time; tasks that end meanwhile go into the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import LockHolder, Token, Verdict, locked_rows
from horsies.lifecycle.finishing import finish, is_end, stored_earlier
from horsies.run.contract import TASK_INTERRUPTED
from horsies.run.events import TaskEnd
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.isolate_bad_rows import is_about_one_row

if TYPE_CHECKING:
    from horsies.lifecycle.finishing import Finished
    from horsies.run.events import TaskEnding
    from horsies.run.worker.advancer import Advancer
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.run.worker.outbox import Batch, WaitingOutcome
    from horsies.run.worker.starter import Starter
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


class Finisher(WorkerLoop):
    """The loop that stores what is in the outbox, and claims in the same statement for the slots that this frees."""

    name = "finish"
    interval_s = 5.0
    step_timeout_s = 60.0

    def __init__(
        self, dedicated: DedicatedConnection, flow: TaskFlow, claimer: Claimer, starter: Starter, advancer: Advancer
    ) -> None:
        super().__init__(dedicated, flow)
        self.wake = flow.outbox.wake
        self._capped = flow.rules.capped
        self._outbox = flow.outbox
        self._claimer = claimer
        self._starter = starter
        self._advancer = advancer
        self._unanswered: set[InFlightTask] = set()

    async def step(self) -> None:
        flow, outbox = self._flow, self._outbox
        batch = outbox.next_batch()
        if not batch:
            return
        connection = await self.dedicated.ready()
        for entry in batch:
            flow.tasks.move(entry, Stage.STORING)
        try:
            finished = await self._store_or_postpone(connection, batch, careful=bool(outbox.locked))
        except BaseException:
            self._unanswered.update(batch)  # stored or not: sent again, a row that has ended is found stale
            for entry in batch:
                if not outbox.is_postponed(entry):
                    flow.tasks.move(entry, Stage.FINISHING)
            raise
        stored = {entry: finished[entry.task.token] for entry in batch if entry.task.token in finished}
        self._unanswered.difference_update(stored)
        for entry, answer in stored.items():
            self._stored(entry, batch[entry], answer)
        flow.throttle()
        flow.quiet.set()
        if outbox.pending > outbox.locked:
            self.wake.set()
        if self._capped and stored:
            # A claim, here or elsewhere, may have found the cap reached a moment ago; only this announces the room.
            self._claimer.ended({entry.task.queue_name: entry.task_id for entry in stored})
            self._starter.retry_waiting()

    def _stored(self, entry: InFlightTask, ended: WaitingOutcome, answer: Finished) -> None:
        """Forget a task: the database has stored its outcome, or has reported its token as stale."""
        self._outbox.stored(entry)
        self._flow.tasks.drop(entry)
        self._flow.tasks.recent.add(ended.outcome)
        self._flow.progress.ended(entry, accepted=answer.verdict is Verdict.ACCEPTED)
        self._report(entry, ended, answer)
        if entry.task.is_workflow_task and answer.status is not TaskStatus.PENDING:
            self._advancer.ended(entry.task_id, ended.outcome.span)

    async def _store_or_postpone(
        self, connection: asyncpg.Connection, batch: Batch, *, careful: bool
    ) -> dict[Token, Finished]:
        """Store the batch; a row that another session has locked, or the database rejects, does not delay the others.

        `careful`: check first which rows are locked, at the cost of a round trip. Otherwise each locked row would cost
        a lock timeout.
        """
        if careful:
            batch = await self._unlocked(connection, batch)
        if not batch:
            return {}
        try:
            if not any(map(self._outbox.is_rejected, batch)):
                if careful:
                    return await self._store(connection, batch)
                async with self.dedicated.briefly():
                    return await self._store(connection, batch)
        except asyncpg.LockNotAvailableError:
            if careful:
                raise  # not a row is locked, but the table
            self._unanswered.update(batch)
            return await self._store_or_postpone(connection, batch, careful=True)
        except asyncpg.PostgresError as error:
            if not is_about_one_row(error):
                raise
        return await self._one_by_one(connection, batch)

    async def _unlocked(self, connection: asyncpg.Connection, batch: Batch) -> Batch:
        """Return the outcomes whose rows are not locked; set the others aside for a moment."""
        tokens = [entry.task.token for entry in batch]
        locked = await locked_rows(connection, self._worker_id, tokens)
        for entry in batch:
            if (holder := locked.get(entry.task.token)) is None:
                self._outbox.unlocked(entry)
            else:
                self._outbox.wait_for_lock(entry, holder)
        return {entry: ended for entry, ended in batch.items() if not self._outbox.is_locked(entry)}

    async def _one_by_one(self, connection: asyncpg.Connection, batch: Batch) -> dict[Token, Finished]:
        """Store one after the other: one is rejected, because a number overflows or a trigger forbids it."""
        self._unanswered.update(batch)
        self._claimer.wake.set()
        finished: dict[Token, Finished] = {}
        for entry, ended in batch.items():
            try:
                finished |= await self._store(connection, {entry: ended}, alone=True)
            except asyncpg.LockNotAvailableError:
                self._outbox.wait_for_lock(entry, LockHolder(None, None))
            except asyncpg.PostgresError as error:
                if not is_about_one_row(error):
                    raise
                self._outbox.reject(entry, error)
        return finished

    async def _store(
        self, connection: asyncpg.Connection, batch: Batch, *, alone: bool = False
    ) -> dict[Token, Finished]:
        """Store the outcomes; unless `alone`, claim in the same statement tasks for the slots that they free."""
        outcomes = [ended.outcome for ended in batch.values()]
        kinds = {entry.is_async for entry in batch}
        finished = None
        if not alone and len(kinds) == 1 and all(map(is_end, outcomes)):
            finished = await self._claimer.finish_and_claim(connection, outcomes, is_async=kinds.pop())
        if finished is None:
            if not alone and not self._capped:  # the cap has no room before these are stored
                self._claimer.wake.set()
            finished = await finish(connection, self._worker_id, outcomes)
        in_doubt = [
            ended.outcome
            for entry, ended in batch.items()
            if entry in self._unanswered and finished[entry.task.token].verdict is Verdict.STALE
        ]
        return finished | await stored_earlier(connection, self._worker_id, in_doubt)

    def _report(self, entry: InFlightTask, ended: WaitingOutcome, answer: Finished) -> None:
        outcome, duration_s = ended.outcome, ended.duration_s
        ending: TaskEnding = "failed"
        if answer.verdict is Verdict.STALE:
            self._events.claim_lost(entry, "finish")
            return
        if answer.status is TaskStatus.COMPLETED:
            ending = "completed"
        elif outcome.error_code == TASK_INTERRUPTED:
            ending, duration_s = "requeued" if answer.status is TaskStatus.PENDING else "failed", None
        elif answer.status is TaskStatus.PENDING:
            ending = "retried"
            self._claimer.retry_in(outcome.retry_delay_s or 0.0)
        self._events.task_ended(TaskEnd(entry, ending, outcome, duration_s, answer.due))
