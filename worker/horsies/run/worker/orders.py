"""Operators' orders to this worker: read every five seconds, and at once after a notification."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from horsies.run.loops import Wake
from horsies.run.worker.in_flight import Stage
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg

    from horsies.run.events import Events
    from horsies.run.settings import Identity
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.lost_claims import LostClaims
    from horsies.run.worker.starter import Starter
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

CHANNEL = "horsies_operator"
_PRUNE_EVERY_S = 3600.0


class Orders:
    """A drained worker claims nothing, releases tasks that it has not started, and lets the others run."""

    name = "orders"
    interval_s = 5.0
    step_timeout_s = 20.0

    def __init__(
        self,
        identity: Identity,
        dedicated: DedicatedConnection,
        claimer: Claimer,
        starter: Starter,
        lost_claims: LostClaims,
        flow: TaskFlow,
        events: Events,
    ) -> None:
        self.wake = Wake()
        self.dedicated = dedicated
        self._worker_id = identity.worker_id
        self._claimer = claimer
        self._starter = starter
        self._lost_claims = lost_claims
        self._flow = flow
        self._events = events
        self._pruned: float | None = None

    async def step(self) -> None:
        async with self.dedicated.acquire() as connection:
            await self._obey(connection)
            if self._claimer.draining:
                await self._give_back(connection)
            if self._pruned is None or time.monotonic() - self._pruned > _PRUNE_EVERY_S:
                self._pruned = time.monotonic()  # first: a role that may not delete gets the error only once an hour
                await connection.execute(statement(__name__, "order_prune"))

    async def _obey(self, connection: asyncpg.Connection) -> None:
        order = await connection.fetchrow(statement(__name__, "order_read"), self._worker_id)
        by, reason = (order["ordered_by"], order["reason"]) if order is not None else (None, None)
        drain = order is not None and order["draining_since"] is not None
        if drain == self._claimer.draining:
            return
        self._claimer.draining = drain
        if drain:
            self._events.note("draining", running=self._flow.tasks.count(Stage.RUNNING), by=by, reason=reason)
        else:
            self._events.note("claiming resumed", by=by, reason=reason)
            self._claimer.wake.set()

    async def _give_back(self, connection: asyncpg.Connection) -> None:
        """Release tasks that would otherwise wait behind running ones, also those of a claim under way at the order."""
        async with self._claimer.claiming, self._starter.stepping:
            waiting = self._starter.take_all()
            try:
                # Not a release of these: a start whose reply was lost may have made one RUNNING.
                returned, _ = await self._lost_claims.release(connection)
            except BaseException:
                for entry in waiting:  # their start will find out whether they still belong to this worker
                    self._starter.add(entry)
                raise
        if returned:
            self._events.note("claims released", claimed=len(returned))
