"""Stores outcomes: one statement at a time; tasks that end meanwhile go into the next one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.codes import OperationalErrorCode
from horsies.domain.states import TaskStatus
from horsies.lifecycle.claim_token import Token, Verdict
from horsies.lifecycle.finish_and_claim import finish_and_claim, is_end
from horsies.lifecycle.finishing import finish, stored_earlier
from horsies.lifecycle.locked_rows import LockHolder, locked_rows
from horsies.run.contract import TASK_INTERRUPTED
from horsies.run.loops import Wake
from horsies.run.worker.in_flight import InFlightTask, Stage
from horsies.store.isolate_bad_rows import is_about_one_row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from horsies.lifecycle.finishing import Finished, Outcome
    from horsies.run.events import Events
    from horsies.run.pool.child import ChildResult
    from horsies.run.settings import Identity
    from horsies.run.worker.claimer import Claimer, Offer
    from horsies.run.worker.in_flight import InFlightTasks
    from horsies.run.worker.progress_writer import ProgressBook
    from horsies.run.worker.task_outcomes import TaskOutcomes
    from horsies.store.dedicated_connection import DedicatedConnection

_LARGEST_BATCH = 200
_LARGEST_BATCH_CHARS = 8_000_000
_MOST_WAITING_CHARS = 32_000_000  # of results; two of the largest that are stored
_OVERDUE_S = 2.0
_REFUSED_AGAIN_S = 30.0
_LOCKED_AGAIN_S = 0.5
_MOST_LOST_NAMED = 100
_PATIENCE_S = 0.05  # for a claim under way, which takes a fraction of a millisecond unless it is stuck


@dataclass(frozen=True, slots=True)
class _Ended:
    """An outcome to be stored."""

    outcome: Outcome
    duration_s: float | None
    ended_at: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        return len(self.outcome.result_json or "")


class Finisher:
    """Keeps every outcome in memory until the database has stored it or reports its token as stale."""

    name = "finish"
    interval_s = 5.0
    step_timeout_s = 60.0

    def __init__(
        self,
        identity: Identity,
        lane: DedicatedConnection,
        in_flight: InFlightTasks,
        events: Events,
        *,
        make: TaskOutcomes,
        progress: ProgressBook,
        claimer: Claimer,
        capped: bool,
        on_retry: Callable[[float], None],
        on_stored: Callable[[], None],
        on_workflow_task: Callable[[str, str | None], None],
        on_backlog: Callable[[bool], None],
        on_capped_end: Callable[[], None],
    ) -> None:
        self.wake = Wake()
        self._identity = identity
        self.lane = lane
        self._in_flight = in_flight
        self._events = events
        self._make = make
        self._progress = progress
        self._on_retry = on_retry
        self._on_stored = on_stored
        self._on_workflow_task = on_workflow_task
        self._on_backlog = on_backlog
        self._waiting_chars = 0
        self._claimer = claimer
        self._capped = capped
        self._on_capped_end = on_capped_end
        self._outcomes: dict[InFlightTask, _Ended] = {}
        self._unanswered: set[InFlightTask] = set()
        self._refused: dict[InFlightTask, float] = {}
        """Outcomes that the database rejects, each for a reason of its own, and when to try them again."""
        self._locked: dict[InFlightTask, float] = {}
        """Outcomes whose rows other sessions have locked, and when to try them again."""

    @property
    def pending(self) -> int:
        """How many wait to be stored or for a locked row."""
        return len(self._outcomes) - len(self._refused)

    @property
    def refused(self) -> int:
        """How many the database has rejected; they are tried again from time to time."""
        return len(self._refused)

    def offer_refused(self) -> None:
        """Try them a last time, before the worker ends."""
        for entry in list(self._refused):
            del self._refused[entry]
            self._count_in(entry)
        self.wake.set()

    def give_up(self) -> list[str]:
        """The worker ends: log the tasks whose outcomes are not stored, for any reason, and return their ids."""
        if self._outcomes:
            self._events.warn("outcomes lost", count=len(self._outcomes), reason="the database did not take them")
        for entry in islice(self._outcomes, _MOST_LOST_NAMED):
            self._events.outcome_lost(entry.task_id, entry.task.task_name)
        return [entry.task_id for entry in self._outcomes]

    def result(self, entry: InFlightTask, result: ChildResult) -> None:
        """A child has reported a result."""
        if entry.interrupted and result.error_code == TASK_INTERRUPTED:
            self.interrupted(entry, began=result.began)
        elif not result.began and result.error_code == OperationalErrorCode.WORKER_CRASHED.value:
            self.interrupted(entry, began=False)  # its lease had expired before
        else:
            self._add(entry, self._make.of_result(entry, result), result.run_s)

    def crashed(self, entry: InFlightTask, how: str) -> None:
        """The child died under it."""
        if entry.interrupted:
            self.interrupted(entry)
        else:
            self._add(entry, self._make.of_crash(entry, how), None)

    def interrupted(self, entry: InFlightTask, *, began: bool = True) -> None:
        """The shutdown stopped it."""
        self._add(entry, self._make.of_interrupt(entry, began=began), None)

    def commit_lost(self, entry: InFlightTask, outcome: Outcome | None) -> None:
        """Its outcome was stored, but the database has lost the commit: store it again, or count it as a crash."""
        self._events.warn(
            "the database has lost the commit of an outcome",
            task=entry.task.task_name,
            id=entry.task_id,
            now="it is stored again" if outcome else "it counts as a crash, as the outcome is no longer in memory",
        )
        self._add(entry, outcome or self._make.of_lost_commit(entry), None)

    async def step(self) -> None:
        batch = self._next_batch()
        if not batch:
            return
        connection = await self.lane.ready()
        for entry in batch:
            self._in_flight.move(entry, Stage.STORING)
        try:
            finished = await self._store_or_set_aside(connection, batch, careful=bool(self._locked))
        except BaseException:
            self._unanswered.update(batch)  # stored or not: sent again, a row that has ended is found stale
            for entry in batch.keys() - self._refused.keys() - self._locked.keys():
                self._in_flight.move(entry, Stage.FINISHING)
            raise
        stored = {entry: finished[entry.task.token] for entry in batch if entry.task.token in finished}
        self._unanswered.difference_update(stored)
        for entry, answer in stored.items():
            self._forget(entry)
            self._in_flight.drop(entry)
            self._in_flight.recent.add(batch[entry].outcome)
            self._progress.ended(entry, accepted=answer.verdict is Verdict.ACCEPTED)
            self._log_outcome(entry, batch[entry].outcome, answer, batch[entry].duration_s)
            if entry.task.is_workflow_task and answer.status is not TaskStatus.PENDING:
                self._on_workflow_task(entry.task_id, batch[entry].outcome.span)
        self._on_stored()
        if self.pending > len(self._locked):
            self.wake.set()
        if self._capped and stored:
            # A claim, here or elsewhere, may have found the cap reached a moment ago; only this announces the room.
            self._claimer.ended({entry.task.queue_name: entry.task_id for entry in stored})
            self._on_capped_end()

    def _next_batch(self) -> dict[InFlightTask, _Ended]:
        """New outcomes, and locked ones that are due again; rejected ones only if there are none of these."""
        now = time.monotonic()
        due = (
            each
            for each in self._outcomes.items()
            if each[0] not in self._refused and self._locked.get(each[0], now) <= now
        )
        batch: dict[InFlightTask, _Ended] = {}
        chars = 0
        for entry, ended in islice(due, _LARGEST_BATCH):
            chars += ended.size
            if batch and chars > _LARGEST_BATCH_CHARS:
                break
            batch[entry] = ended
        return batch or {entry: self._outcomes[entry] for entry, due_at in self._refused.items() if due_at <= now}

    async def _store_or_set_aside(
        self, connection: asyncpg.Connection, batch: dict[InFlightTask, _Ended], *, careful: bool
    ) -> dict[Token, Finished]:
        """A row that another session has locked, or that the database rejects, must not delay the others.

        `careful`: check first which rows are locked, at the cost of a round trip. Otherwise each locked row would cost
        a lock timeout.
        """
        if careful:
            batch = await self._unlocked(connection, batch)
        if not batch:
            return {}
        try:
            if not self._refused.keys() & batch.keys():
                if careful:
                    return await self._store(connection, batch, self._finish)
                async with self.lane.briefly():
                    return await self._store(connection, batch, self._finish)
        except asyncpg.LockNotAvailableError:
            if careful:
                raise  # not a row is locked, but the table
            self._unanswered.update(batch)
            return await self._store_or_set_aside(connection, batch, careful=True)
        except asyncpg.PostgresError as error:
            if not is_about_one_row(error):
                raise
        return await self._one_by_one(connection, batch)

    async def _unlocked(
        self, connection: asyncpg.Connection, batch: dict[InFlightTask, _Ended]
    ) -> dict[InFlightTask, _Ended]:
        """The outcomes whose rows are not locked; the others are set aside for a moment."""
        tokens = [entry.task.token for entry in batch]
        locked = await locked_rows(connection, self._identity.worker_id, tokens)
        for entry in batch:
            if (holder := locked.get(entry.task.token)) is None:
                if self._locked.pop(entry, None) is not None:
                    self._count_in(entry)
            else:
                self._set_aside(entry, holder)
        return {entry: ended for entry, ended in batch.items() if entry not in self._locked}

    def _set_aside(self, entry: InFlightTask, holder: LockHolder) -> None:
        if entry not in self._locked:
            self._events.outcome_waits(entry.task_id, entry.task.task_name, str(holder))
            self._count_out(entry)
        self._locked[entry] = time.monotonic() + _LOCKED_AGAIN_S
        asyncio.get_running_loop().call_later(_LOCKED_AGAIN_S, self.wake.set)

    async def _one_by_one(
        self, connection: asyncpg.Connection, batch: dict[InFlightTask, _Ended]
    ) -> dict[Token, Finished]:
        """One of them is rejected, because a number overflows or a trigger forbids it: store each by itself."""
        self._unanswered.update(batch)
        self._claimer.wake.set()
        finished: dict[Token, Finished] = {}
        for entry, ended in batch.items():
            try:
                finished |= await self._store(connection, {entry: ended}, self._finish_only)
            except asyncpg.LockNotAvailableError:
                self._set_aside(entry, LockHolder(None, None))
            except asyncpg.PostgresError as error:
                if not is_about_one_row(error):
                    raise
                self._refuse(entry, error)
        return finished

    def _refuse(self, entry: InFlightTask, error: asyncpg.PostgresError) -> None:
        if entry not in self._refused:
            self._events.outcome_refused(entry.task_id, entry.task.task_name, error)
            self._count_out(entry)
        self._refused[entry] = time.monotonic() + _REFUSED_AGAIN_S

    async def _store(
        self,
        connection: asyncpg.Connection,
        batch: dict[InFlightTask, _Ended],
        do: Callable[[asyncpg.Connection, dict[InFlightTask, _Ended]], Awaitable[dict[Token, Finished]]],
    ) -> dict[Token, Finished]:
        worker_id = self._identity.worker_id
        finished = await do(connection, batch)
        in_doubt = [
            ended.outcome
            for entry, ended in batch.items()
            if entry in self._unanswered and finished[entry.task.token].verdict is Verdict.STALE
        ]
        return finished | await stored_earlier(connection, worker_id, in_doubt)

    async def _finish(self, connection: asyncpg.Connection, batch: dict[InFlightTask, _Ended]) -> dict[Token, Finished]:
        """Store the outcomes, and claim in the same statement tasks for the places that they free."""
        outcomes = [ended.outcome for ended in batch.values()]
        kinds = {entry.is_async for entry in batch}
        if len(kinds) == 1 and all(map(is_end, outcomes)) and await self._claimer.free_within(_PATIENCE_S):
            async with self._claimer.claiming:
                if (offer := self._claimer.offer(is_async=kinds.pop())) is not None:
                    return await self._finish_and_claim(connection, outcomes, offer)
        if not self._capped:  # the cap has no room before these are stored
            self._claimer.wake.set()
        return await self._finish_only(connection, batch)

    async def _finish_only(
        self, connection: asyncpg.Connection, batch: dict[InFlightTask, _Ended]
    ) -> dict[Token, Finished]:
        return await finish(connection, self._identity.worker_id, [ended.outcome for ended in batch.values()])

    async def _finish_and_claim(
        self, connection: asyncpg.Connection, outcomes: list[Outcome], offer: Offer
    ) -> dict[Token, Finished]:
        try:
            finished, claimed = await finish_and_claim(connection, self._identity.worker_id, outcomes, offer.request)
        except BaseException as error:
            self._claimer.forget(offer, error)
            raise
        self._claimer.accept(offer, claimed)
        return finished

    def has_ended_before(self, moment: float) -> bool:
        """Whether an outcome from before then waits to be stored, apart from those that the database rejected."""
        aside = self._refused.keys() | self._locked.keys()
        return any(ended.ended_at <= moment for entry, ended in self._outcomes.items() if entry not in aside)

    def overdue(self) -> list[Token]:
        """Executions that have ended and could not be stored for some time."""
        since = time.monotonic() - _OVERDUE_S
        return [entry.task.token for entry, outcome in self._outcomes.items() if outcome.ended_at < since]

    def _add(self, entry: InFlightTask, outcome: Outcome, duration_s: float | None) -> None:
        self._in_flight.move(entry, Stage.FINISHING)
        self._outcomes[entry] = ended = _Ended(outcome, duration_s)
        self._count(ended.size)
        self.wake.set()

    def _forget(self, entry: InFlightTask) -> None:
        if entry not in self._refused and entry not in self._locked:
            self._count(-self._outcomes[entry].size)
        del self._outcomes[entry]
        self._refused.pop(entry, None)
        self._locked.pop(entry, None)

    def _count_out(self, entry: InFlightTask) -> None:
        """Before an outcome is set aside: it may stay for long, and must not delay the others."""
        if entry not in self._refused and entry not in self._locked:
            self._count(-self._outcomes[entry].size)

    def _count_in(self, entry: InFlightTask) -> None:
        """After it was set aside."""
        if entry not in self._refused and entry not in self._locked:
            self._count(self._outcomes[entry].size)

    def _count(self, chars: int) -> None:
        """Count waiting results: if they are too many, the children keep theirs until half of it is stored."""
        before, self._waiting_chars = self._waiting_chars, self._waiting_chars + chars
        if before <= _MOST_WAITING_CHARS < self._waiting_chars:
            self._on_backlog(True)
        elif self._waiting_chars <= _MOST_WAITING_CHARS // 2 < before:
            self._on_backlog(False)

    def _log_outcome(self, entry: InFlightTask, outcome: Outcome, finished: Finished, duration_s: float | None) -> None:
        if finished.verdict is Verdict.STALE:
            self._events.claim_lost(entry, "finish")
        elif finished.status is TaskStatus.COMPLETED:
            self._events.task_finished(entry, duration_s)
        elif outcome.error_code == TASK_INTERRUPTED:
            self._events.task_interrupted(entry, outcome, requeued=finished.status is TaskStatus.PENDING)
        elif finished.status is TaskStatus.PENDING:
            self._events.task_retried(entry, outcome, finished.due, duration_s)
            self._on_retry(outcome.retry_delay_s or 0.0)
        else:
            self._events.task_failed(entry, outcome, duration_s)
