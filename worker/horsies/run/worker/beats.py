"""Leases and beats for claims, beats for runs, and a mark on outcomes that wait to be stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import asyncpg

from horsies.lifecycle.claim_token import beat, renew
from horsies.lifecycle.finishing import mark_finalizing
from horsies.run.contract import LeaseTerms
from horsies.run.guard import clock
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.connect import DatabaseUnavailable
from horsies.store.pulse import is_on_this_machine, is_refusal, write_pulse

if TYPE_CHECKING:
    from horsies.run.pool.child import Child
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.run.worker.starter import Starter
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

_NONE_CAN_BEAT = (asyncpg.LockNotAvailableError, asyncpg.DiskFullError)
"""Errors that every worker's heartbeat gets: it waits for no row, but for the tables of tasks and of heartbeats."""
_LOCK_WAIT_NS = 400_000_000  # a little less than the lock_timeout of this connection: the table is still locked then
_LONGEST_STEP_S = 20.0
_SHORTEST_STEP_S = 2.0


class Beats(WorkerLoop):
    """The parent beats for its children, because user code can hold the GIL for minutes.

    The exit of a child is noticed at once, so no beat is sent for a dead child.
    """

    name = "beat"

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow, starter: Starter) -> None:
        super().__init__(dedicated, flow)
        config = flow.app.config
        self._recovery = recovery = config.recovery
        self._claimer_s = recovery.claimer_heartbeat_interval_ms / 1000
        self._terms = terms = LeaseTerms.of(recovery)
        # Three beats within a lease: user code survives the loss of one.
        self._runner_s = min(recovery.runner_heartbeat_interval_ms, terms.stop_ms / 3) / 1000
        self.interval_s = min(self._claimer_s, self._runner_s) / 4
        # A silent connection is replaced in time to keep the leases, and a merely slow one is not.
        self.step_timeout_s = min(_LONGEST_STEP_S, max(_SHORTEST_STEP_S, terms.stop_ms / 2_000))
        self._lease_ms = config.effective_claim_lease_ms
        self._max_age_ms = config.max_claim_renew_age_ms
        self._identity = flow.identity
        self._in_flight = flow.tasks
        self._outbox = flow.outbox
        self._starter = starter
        self._renewed = self._beaten = time.monotonic()
        self._asked = self._answered = 0
        self._known: asyncpg.Connection | None = None
        self._refusal_is_proof = False

    def beat_now(self) -> None:
        """Beat now, and stop tasks that an operator has taken from this worker."""
        self._asked += 1
        self.wake.set()

    async def step(self) -> None:
        tried_at = clock()
        try:
            await self._step()
        except DatabaseUnavailable as error:
            if self._refusal_is_proof and is_refusal(error):
                self._extend_leases(tried_at)
            raise

    async def _step(self) -> None:
        connection = await self.dedicated.ready()
        if connection is not self._known:  # now, not at the first heartbeat: the server may fail before that
            self._refusal_is_proof = await is_on_this_machine(connection, self.dedicated.url)
            self._known = connection
        now = time.monotonic()
        asked = self._asked
        # First the beats of runs, which wait for no lock on a task: a claim that cannot be renewed must not stop them.
        if (asked != self._answered or now - self._beaten >= self._runner_s) and (
            len(self._in_flight) > self._in_flight.count(Stage.CLAIMED)
        ):
            await self._beat()
            self._beaten, self._answered = now, asked
        if now - self._renewed >= self._claimer_s and self._in_flight.count(Stage.CLAIMED):
            who = self._identity
            connection = await self.dedicated.ready()
            await renew(connection, who.worker_id, self._lease_ms, self._max_age_ms, hostname=who.hostname, pid=who.pid)
            self._renewed = now
        if waiting := self._outbox.overdue():
            # On this connection: the finisher's own is busy with the statement that does not return.
            await mark_finalizing(await self.dedicated.ready(), self._identity.worker_id, waiting)
        # After all other writes: a failure that prevents beats must also prevent the pulse.
        await write_pulse(await self.dedicated.ready(), self._recovery, self.interval_s)

    async def _beat(self) -> None:
        connection = await self.dedicated.ready()
        alive = self._alive()
        tokens = [(entry.task.token, child.pid) for entry, child in alive.items()]
        # Tasks that have ended beat with this process: if their row is locked, no mark can be set.
        waiting = [*self._in_flight.at(Stage.FINISHING), *self._in_flight.at(Stage.STORING)]
        tokens += [(entry.task.token, self._identity.pid) for entry in waiting]
        sent_at = clock()
        try:
            stale = await beat(connection, self._identity.worker_id, self._identity.hostname, tokens)
            self._events.beaten(len(tokens) - len(stale))
        except _NONE_CAN_BEAT as error:
            if len(self.dedicated.url.hosts) < 2:
                waited = isinstance(error, asyncpg.LockNotAvailableError)
                self._extend_leases(sent_at + (_LOCK_WAIT_NS if waited else 0))
            raise
        for entry in alive:
            if entry.stage is not Stage.RUNNING or self._in_flight.get(entry.task.token) is not entry:
                continue
            if entry.task.token in stale:
                self._starter.stop_lost(entry)
            else:
                entry.confirm(sent_at)

    def _extend_leases(self, moment: int) -> None:
        """Count the leases from a moment when no worker could beat: sweeps leave such runs, too."""
        for entry in self._alive():
            entry.confirm(self._terms.spared_from(moment))

    def _alive(self) -> dict[InFlightTask, Child]:
        """Return running tasks and their child processes, without those of a stopped process, whatever stopped it."""
        running = {entry: entry.child for entry in self._in_flight.at(Stage.RUNNING) if entry.child is not None}
        still = {child for child in set(running.values()) if child.is_suspended()}
        return {entry: child for entry, child in running.items() if child not in still}
