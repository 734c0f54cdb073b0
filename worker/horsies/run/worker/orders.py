"""Operators' orders to this worker, and their looks at its tasks. Each is read after a notification, and polled."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import to_json
from horsies.lifecycle.claim_token import Token
from horsies.run.contract import task_id_of
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.run.contract import Job
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.starter import LostClaims, Starter
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


ORDERS_CHANNEL = "horsies_operator"
_PRUNE_EVERY_S = 3600.0


class Orders(WorkerLoop):
    """A drained worker claims nothing, releases tasks that it has not started, and lets the others run."""

    name = "orders"
    interval_s = 5.0

    def __init__(
        self,
        dedicated: DedicatedConnection,
        flow: TaskFlow,
        claimer: Claimer,
        starter: Starter,
        lost_claims: LostClaims,
    ) -> None:
        super().__init__(dedicated, flow)
        self._claimer = claimer
        self._starter = starter
        self._lost_claims = lost_claims
        self._pruned: float | None = None

    async def step(self) -> None:
        async with self.dedicated.acquire() as connection:
            await self._obey(connection)
            if self._claimer.draining:
                await self._release_waiting(connection)
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

    async def _release_waiting(self, connection: asyncpg.Connection) -> None:
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


LOOKS_CHANNEL = "horsies_look"
_POLL_S = 5.0
"""Behind a pooler, where no notification arrives."""
_LISTENING_S = 60.0
_MOST_OUTPUT = 12_000
"""Bytes of one answer: a follower asks twice a second, and its line may carry 30 kB/s."""


class Looks(WorkerLoop):
    """The loop that answers operators who look at a task: with its stack, or with its output."""

    name = "looks"

    def __init__(self, dedicated: DedicatedConnection, flow: TaskFlow, *, polls: bool) -> None:
        super().__init__(dedicated, flow)
        self.interval_s = _POLL_S if polls else _LISTENING_S
        self._in_flight = flow.tasks
        self._outputs = flow.outputs
        self._allowed = flow.app.config.allow_looks
        self._pruned: float | None = None

    async def step(self) -> None:
        async with self.dedicated.acquire() as connection:
            asked = await connection.fetch(statement(__name__, "looks_asked"), self._worker_id)
            if self._pruned is None or time.monotonic() - self._pruned > _PRUNE_EVERY_S:
                self._pruned = time.monotonic()  # first: a role that may not delete gets the error only once an hour
                await connection.execute(statement(__name__, "looks_prune"))
        if not asked:
            return
        answers = await asyncio.gather(*map(self._answer, asked))  # without the connection: a dump takes 0.2 s
        columns = [row["look_id"] for row in asked], [row["asked_at"] for row in asked], answers
        async with self.dedicated.acquire() as connection:
            await connection.execute(statement(__name__, "looks_answer"), *columns)

    async def _answer(self, look: Mapping[str, Any]) -> str:
        if not self._allowed:
            return to_json({"problem": "this worker's application has allow_looks=False"}, "answer")
        token = Token(look["task_id"], self._worker_id, look["claimed_at"])
        if look["kind"] == "output":
            return to_json(self._output(token, look["after_line"]), "answer")
        entry = self._in_flight.get(token)
        if entry is None or entry.stage is not Stage.RUNNING or entry.child is None or entry.job is None:
            return to_json({"problem": "it has ended"}, "answer")
        stack = await entry.child.stack(entry.job.key, with_locals=look["with_locals"])
        found = _not_begun(entry.child.before(entry.job.key)) if stack is None else stack
        return to_json({"pid": entry.child.pid} | found, "answer")

    def _output(self, token: Token, after: int) -> dict[str, Any]:
        ring = self._outputs.of(token)
        runs = self._in_flight.get(token) is not None
        if ring is None:
            return {"lines": [], "last": 0, "left_out": 0, "runs": True} if runs else {"problem": "it has ended"}
        return ring.since(after, _MOST_OUTPUT) | {"runs": runs}


def _not_begun(before: Job | None) -> dict[str, Any]:
    """Return why there is no stack, with the id of the task that runs before it in the child, if there is one."""
    if before is None:
        return {"problem": "its code has not begun, or has ended"}
    task_id = task_id_of(before.key)
    return {"problem": f"its code has not begun: {before.task_name} {task_id} runs before it", "behind": task_id}
