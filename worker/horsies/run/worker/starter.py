"""Passes claimed tasks to children: RUNNING is stored first, then user code starts."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.plan import references
from horsies.lifecycle.claim_token import locked_rows
from horsies.lifecycle.claiming import large_arguments, start, take_back_unlocked, unaccounted
from horsies.lifecycle.node_tasks import resolved
from horsies.run.guard import clock
from horsies.run.worker.in_flight import InFlightTask, Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.isolate_bad_rows import is_blocked

if TYPE_CHECKING:
    from collections.abc import Collection

    from horsies.lifecycle.claim_token import Token
    from horsies.lifecycle.claiming import StartVerdicts
    from horsies.run.loops import Outage
    from horsies.run.worker.advancer import Advancer
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


_RELEASE_AGAIN_S = 5.0
_LOCKED_AGAIN_S = 0.5


class LostClaims:
    """Releases them: the reply of their statement was lost, or another session has locked their row.

    Before the next claim, because only then are all tokens of this worker known. All calls of `release` hold
    `Claimer.claiming`.
    """

    def __init__(self, flow: TaskFlow) -> None:
        self._rules = flow.rules
        self._flow = flow
        self._events = flow.events
        self._due: list[float] = []
        """Times at which to search for them."""

    @property
    def is_due(self) -> bool:
        return bool(self._due) and self._due[0] <= time.monotonic()

    @property
    def expected(self) -> bool:
        """True if a reply was just lost, so that no claim may be made before `release_due`."""
        return len(self._due) > 1

    def search_after(self, error: BaseException) -> None:
        """Search for the claims of a failed statement, unless the server has reported that nothing was claimed."""
        if not is_blocked(error):
            self.search_soon()

    def search_soon(self) -> None:
        """Search before the next claim, and again later.

        The lost statement may still be running: the server notices that its connection is closed when it answers.
        """
        now = time.monotonic()
        self._due = [now, now + _RELEASE_AGAIN_S]
        asyncio.get_running_loop().call_later(_RELEASE_AGAIN_S, self._flow.claim.set)

    def search_later(self) -> None:
        """Search later: they are in rows that other sessions have locked."""
        if not self._due:
            self._due = [time.monotonic() + _LOCKED_AGAIN_S]
            asyncio.get_running_loop().call_later(_LOCKED_AGAIN_S, self._flow.claim.set)

    async def release_due(self, connection: asyncpg.Connection) -> None:
        """Release them, and tasks that the starter gave up as locked."""
        returned, locked = await self.release(connection)
        del self._due[0]
        if locked:
            self.search_later()
        if returned:
            reason = "their reply was lost, or their row was locked"
            self._events.warn("lost claims released", count=len(returned), reason=reason)

    async def release(self, connection: asyncpg.Connection) -> tuple[list[Token], Collection[Token]]:
        """Release tasks of claims and starts whose reply was lost, or that had to wait for a lock or a cap.

        A row whose execution has ended is not released: the database has lost the commit of its outcome (a standby that
        was behind took over, or the server crashed with synchronous_commit off), and the outcome is stored again, as
        soon as the cap has room for its start.
        """
        rules, tasks = self._rules, self._flow.tasks
        waiting: list[Token] = []
        for task, is_claimed in await unaccounted(connection, rules.worker_id, tasks.tokens()):
            if not tasks.recent.has_run(task.token):
                continue
            if is_claimed:  # its start was lost, too
                again = rules.start_of(task, os.getpid(), "lost commit")
                verdicts = await start(connection, rules.worker_id, [again], rules.caps_on_running)
                waiting += verdicts.waiting
                if task.token not in verdicts.started:
                    continue
            entry = InFlightTask(task, is_async=False, timeout_ms=None, requeue_on_interrupt=False, stage=Stage.RUNNING)
            tasks.add(entry)
            self._flow.outbox.commit_lost(entry, tasks.recent.outcome(task.token))
        kept = [*tasks.tokens(), *waiting]
        returned, locked = await take_back_unlocked(connection, rules.worker_id, kept)
        return returned, [*locked, *waiting]


class Starter(WorkerLoop):
    """The loop that starts tasks, one statement at a time; those that come meanwhile go into the next one."""

    name = "start"
    interval_s = 5.0
    step_timeout_s = 30.0

    def __init__(
        self,
        dedicated: DedicatedConnection,
        flow: TaskFlow,
        outage: Outage,
        advancer: Advancer,
        lost_claims: LostClaims,
    ) -> None:
        super().__init__(dedicated, flow)
        self.wake = flow.start
        self._outage = outage
        self._advancer = advancer
        self._lost_claims = lost_claims
        self._rejected_by_cap: list[InFlightTask] = []
        """CLAIMED, and the cap of its queue had no room when it was to start."""
        self._ask_again = False
        self._asked = 0.0
        self.stepping = asyncio.Lock()
        """Held while a start is under way; its holder knows that there is none."""
        self._waiting: dict[bool, deque[InFlightTask]] = {False: deque(), True: deque()}
        self._unresolved: dict[InFlightTask, tuple[str | None, str | None]] = {}
        """RUNNING, with arguments that refer to results which are not read yet."""

    def add(self, entry: InFlightTask) -> None:
        """Take a claimed task, to be started when there is room."""
        self._flow.tasks.add(entry)
        self._waiting[entry.is_async].append(entry)
        self.wake.set()

    def begin(self, entry: InFlightTask) -> None:
        """Run the user code: its row is RUNNING and names its child."""
        self._events.task_started(entry)
        args, kwargs = entry.large_arguments or (entry.task.args, entry.task.kwargs)
        entry.large_arguments = None
        if entry.task.is_workflow_task:
            self._advancer.started(entry.task_id)
            if references(kwargs):
                self._unresolved[entry] = args, kwargs
                self.wake.set()
                return
        self._flow.submit(entry, args, kwargs)

    def stop_lost(self, entry: InFlightTask) -> None:
        """Stop the code of a task that an operator took away, or a sweep while this worker was stalled."""
        self._events.claim_lost(entry, "beat")
        self._flow.stop(entry)
        if self._unresolved.pop(entry, None) is not None:
            self._leave_child(entry)
            self._flow.tasks.drop(entry)
            self._flow.has_room()

    def take_all(self) -> list[InFlightTask]:
        """Drop and return everything that has not been started, to be released."""
        waiting = [*self._waiting[False], *self._waiting[True], *self._rejected_by_cap]
        self._rejected_by_cap.clear()
        for queue in self._waiting.values():
            queue.clear()
        for entry in self._unresolved:
            self._leave_child(entry)
            waiting.append(entry)
        self._unresolved.clear()
        for entry in waiting:
            self._flow.tasks.drop(entry)
        return waiting

    def retry_waiting(self) -> None:
        """Start them again: there may be room under a cap."""
        if self._rejected_by_cap:
            self._ask_again = True
            self.wake.set()

    async def step(self) -> None:
        """Start what waits; once per interval also what a cap had rejected: a notification may have been lost."""
        async with self.stepping:
            if self._rejected_by_cap and (self._ask_again or time.monotonic() - self._asked >= self.interval_s):
                self._put_back(self._rejected_by_cap)
                self._rejected_by_cap = []
            if self._unresolved:
                await self._resolve()
            if self._outage.holds_back:
                return
            batch = self._reserve()
            if batch:
                await self._start(batch)

    async def _start(self, batch: list[InFlightTask]) -> None:
        try:
            connection = await self.dedicated.ready()
            for entry in batch:  # nothing for a stale token, which the start reports, too
                if entry.task.large and entry.large_arguments is None:
                    entry.large_arguments = await large_arguments(connection, entry.task.token)
            self._ask_again, self._asked = False, time.monotonic()
            sent_at = clock()
            verdicts = await self._started_unlocked(connection, batch)
        except BaseException:
            # Sent again after a lost reply, a start counts rows that are RUNNING under their token as started.
            self._put_back(batch)
            raise
        for entry in batch:
            if entry.task.token in verdicts.started:
                entry.confirmed_at = sent_at
                self._flow.tasks.move(entry, Stage.RUNNING)
            elif entry.task.token in verdicts.waiting:
                self._leave_child(entry)
                self._rejected_by_cap.append(entry)
            else:
                self._abandon(entry, verdicts)
        # No await from RUNNING to here: a failure in between would leave a task that beats and never runs.
        for entry in batch:
            if entry.task.token in verdicts.started:
                self.begin(entry)
        if self._rules.max_claimed:  # running tasks do not count against the limit of claims
            self._flow.claim.set()
        if any(self._waiting.values()):
            self.wake.set()

    async def _started_unlocked(self, connection: asyncpg.Connection, batch: list[InFlightTask]) -> StartVerdicts:
        """Start the batch without rows that another session has locked: their slots are for other tasks."""
        try:
            async with self.dedicated.briefly():
                return await self._ask(connection, batch)
        except asyncpg.LockNotAvailableError:
            tokens = [entry.task.token for entry in batch]
            locked = await locked_rows(connection, self._rules.worker_id, tokens)
            if not locked:
                raise  # the table is locked, or the row lock has ended: tried again in a moment
        for entry in [entry for entry in batch if entry.task.token in locked]:
            batch.remove(entry)
            holder = str(locked[entry.task.token])
            self._events.warn("start waits for a lock", task=entry.task.task_name, id=entry.task_id, locked_by=holder)
            self._leave_child(entry)
            self._flow.tasks.drop(entry)
        self._lost_claims.search_later()
        self._flow.has_room()
        return await self._ask(connection, batch)

    async def _ask(self, connection: asyncpg.Connection, batch: list[InFlightTask]) -> StartVerdicts:
        starts = [self._rules.start_of(entry.task, entry.child.pid) for entry in batch if entry.child is not None]
        return await start(connection, self._rules.worker_id, starts, self._rules.caps_on_running)

    async def _resolve(self) -> None:
        """Read the results that the arguments refer to. Tasks lost meanwhile are no longer here to be run."""
        connection = await self.dedicated.ready()
        for entry, (args, kwargs) in list(self._unresolved.items()):
            whole = await resolved(connection, kwargs)
            if self._unresolved.pop(entry, None) is not None:
                self._flow.submit(entry, args, whole)

    def _reserve(self) -> list[InFlightTask]:
        batch = []
        for is_async, queue in self._waiting.items():
            for child in self._flow.reserve(len(queue), is_async=is_async):
                entry = queue.popleft()
                entry.child = child
                batch.append(entry)
        return batch

    def _abandon(self, entry: InFlightTask, verdicts: StartVerdicts) -> None:
        self._leave_child(entry)
        self._flow.tasks.drop(entry)
        if entry.task.token in verdicts.expired:
            self._events.task_expired(entry)
            if entry.task.is_workflow_task:
                self._advancer.ended(entry.task_id)
        elif entry.task.token in verdicts.stale:
            self._events.claim_lost(entry, "start")
        self._flow.has_room()

    def _put_back(self, batch: list[InFlightTask]) -> None:
        for entry in reversed(batch):
            self._leave_child(entry)
            self._waiting[entry.is_async].appendleft(entry)

    def _leave_child(self, entry: InFlightTask) -> None:
        if entry.child is not None:
            self._flow.unreserve(entry.child, is_async=entry.is_async)
            entry.child = None
