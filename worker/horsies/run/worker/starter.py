"""Passes claimed tasks to children: RUNNING is stored first, then user code starts."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.plan import references
from horsies.lifecycle.claim_token import locked_rows
from horsies.lifecycle.claiming import large_arguments
from horsies.lifecycle.node_tasks import resolved
from horsies.lifecycle.starting import start
from horsies.run.guard import clock
from horsies.run.worker.in_flight import InFlightTask, Stage

if TYPE_CHECKING:
    from horsies.lifecycle.starting import StartVerdicts
    from horsies.run.events import Events
    from horsies.run.loops import Outage
    from horsies.run.worker.advancer import Advancer
    from horsies.run.worker.claim_rules import ClaimRules
    from horsies.run.worker.lost_claims import LostClaims
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


class Starter:
    """One statement at a time; tasks that are claimed or get room meanwhile go into the next one."""

    name = "start"
    interval_s = 5.0
    step_timeout_s = 30.0

    def __init__(
        self,
        rules: ClaimRules,
        dedicated: DedicatedConnection,
        flow: TaskFlow,
        events: Events,
        outage: Outage,
        advancer: Advancer,
        lost_claims: LostClaims,
    ) -> None:
        self.wake = flow.start
        self.dedicated = dedicated
        self._flow = flow
        self._events = events
        self._outage = outage
        self._advancer = advancer
        self._lost_claims = lost_claims
        self._rules = rules
        self._turned_away: list[InFlightTask] = []
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
        self._events.started(entry)
        args, kwargs = self._arguments(entry)
        if entry.task.is_workflow_task:
            self._advancer.started(entry.task_id)
            if references(kwargs):
                self._unresolved[entry] = args, kwargs
                self.wake.set()
                return
        self._flow.submit(entry, args, kwargs)

    def lose(self, entry: InFlightTask) -> None:
        """An operator took it away, or a sweep while this worker was stalled: stop its code, or do not begin it."""
        self._events.claim_lost(entry, "beat")
        self._flow.stop(entry)
        if self._unresolved.pop(entry, None) is not None:
            self._leave_child(entry)
            self._flow.tasks.drop(entry)
            self._flow.has_room()

    def take_all(self) -> list[InFlightTask]:
        """Everything that has not been started, to be released."""
        waiting = [*self._waiting[False], *self._waiting[True], *self._turned_away]
        self._turned_away.clear()
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
        if self._turned_away:
            self._ask_again = True
            self.wake.set()

    async def step(self) -> None:
        """Once per interval also for tasks that a cap had rejected: a notification may have been lost."""
        async with self.stepping:
            if self._turned_away and (self._ask_again or time.monotonic() - self._asked >= self.interval_s):
                self._put_back(self._turned_away)
                self._turned_away = []
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
            await self._fetch_large(connection, batch)
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
                self._turned_away.append(entry)
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
        """Rows that another session has locked are given up and leave the batch: their slot is for other tasks."""
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
            self._events.start_waits(entry.task_id, entry.task.task_name, str(locked[entry.task.token]))
            self._leave_child(entry)
            self._flow.tasks.drop(entry)
        self._lost_claims.after_locks()
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

    async def _fetch_large(self, connection: asyncpg.Connection, batch: list[InFlightTask]) -> None:
        """The arguments that the claim left in the table; nothing for a stale token, which the start reports, too."""
        for entry in batch:
            if entry.task.large and entry.large_arguments is None:
                entry.large_arguments = await large_arguments(connection, entry.task.token)

    def _arguments(self, entry: InFlightTask) -> tuple[str | None, str | None]:
        fetched, entry.large_arguments = entry.large_arguments, None
        return (entry.task.args, entry.task.kwargs) if fetched is None else fetched

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
