"""Fills free room with claimed tasks: at once when something may have become claimable, else at every poll."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.lifecycle.claiming import claim, claim_capped, claim_expired
from horsies.lifecycle.waiting import next_due
from horsies.run.held import Stage
from horsies.run.loops import Wake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import asyncpg

    from horsies.lifecycle.claiming import ClaimedTask
    from horsies.run.held import Holdings
    from horsies.run.slots import Slots
    from horsies.store.lane import Lane

_EXPIRED_EVERY_S = 1.0
_LARGEST_CLAIM = 256  # one statement takes no more


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What this worker may claim. Queues in the order in which they are served, each with its cluster-wide limit."""

    worker_id: str
    queues: Mapping[str, int | None]
    cluster_cap: int | None
    hard: bool
    lease_ms: int
    max_batch: int
    max_claimed: int
    sync_names: list[str]
    async_names: list[str]

    @property
    def capped(self) -> bool:
        return self.cluster_cap is not None or any(cap is not None for cap in self.queues.values())


class Claimer:
    """One pass claims for all free room. What a lost connection claimed in vain is given back with the next beat."""

    name = "claim"
    step_timeout_s = 30.0

    def __init__(
        self,
        rules: ClaimRules,
        lane: Lane,
        slots: Slots,
        holdings: Holdings,
        poll_s: float,
        *,
        on_claimed: Callable[[list[ClaimedTask]], None],
    ) -> None:
        self.interval_s = poll_s
        self.wake = Wake()
        self._rules = rules
        self.lane = lane
        self._slots = slots
        self._holdings = holdings
        self._on_claimed = on_claimed
        self._alarm: asyncio.TimerHandle | None = None
        self._expired_checked = 0.0

    @property
    def queues(self) -> list[str]:
        return list(self._rules.queues)

    async def step(self) -> None:
        connection = await self.lane.ready()
        idle = False
        for is_async, names in ((False, self._rules.sync_names), (True, self._rules.async_names)):
            if names:
                await self._fill(connection, names, is_async=is_async)
                idle = idle or self._room(is_async=is_async) > 0
        if idle:  # otherwise the next room looks for itself
            await self._wake_when_due(connection)

    async def _fill(self, connection: asyncpg.Connection, names: list[str], *, is_async: bool) -> None:
        """Claim until the room is full or nothing is left to claim."""
        while (room := self._room(is_async=is_async)) > 0:
            claimed = await self._claim(connection, names, room)
            self._on_claimed(claimed)
            if len(claimed) < min(room, _LARGEST_CLAIM):
                break
        else:
            return
        if not self._rules.capped and time.monotonic() - self._expired_checked > _EXPIRED_EVERY_S:
            self._expired_checked = time.monotonic()
            await self._claim_expired(connection, names, is_async=is_async)

    def _room(self, *, is_async: bool) -> int:
        free = self._slots.capacity(is_async=is_async) - self._holdings.occupied(is_async=is_async)
        if self._rules.max_batch:
            free = min(free, self._rules.max_batch)
        if self._rules.max_claimed:
            free = min(free, self._rules.max_claimed - self._holdings.count(Stage.CLAIMED))
        return free

    async def _claim(self, connection: asyncpg.Connection, names: list[str], room: int) -> list[ClaimedTask]:
        rules = self._rules
        if rules.capped:
            return await claim_capped(
                connection,
                worker_id=rules.worker_id,
                queues=list(rules.queues.items()),
                budget=room,
                cluster_cap=rules.cluster_cap,
                hard=rules.hard,
                lease_ms=rules.lease_ms,
                task_names=names,
            )
        claimed: list[ClaimedTask] = []
        for queue in rules.queues:
            claimed += await claim(
                connection,
                worker_id=rules.worker_id,
                queue=queue,
                limit=room - len(claimed),
                lease_ms=rules.lease_ms,
                task_names=names,
            )
            if len(claimed) >= room:
                break
        return claimed

    async def _claim_expired(self, connection: asyncpg.Connection, names: list[str], *, is_async: bool) -> None:
        """Claims of workers that died between claim and start. claim_capped looks for them itself."""
        for queue in self._rules.queues:
            room = self._room(is_async=is_async)
            if room > 0:
                rules = self._rules
                self._on_claimed(
                    await claim_expired(
                        connection,
                        worker_id=rules.worker_id,
                        queue=queue,
                        limit=room,
                        lease_ms=rules.lease_ms,
                        task_names=names,
                    )
                )

    async def _wake_when_due(self, connection: asyncpg.Connection) -> None:
        """Nothing notifies when a delayed task or a retry falls due, so the next one sets an alarm here."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_in = await next_due(connection, self.queues)
        if due_in is not None and due_in < self.interval_s:
            self._alarm = asyncio.get_running_loop().call_later(max(due_in, 0.0), self.wake.set)
