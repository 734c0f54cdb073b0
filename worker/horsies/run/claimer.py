"""Fills free room with claimed tasks: at once when something may have become claimable, else at every poll."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.lifecycle.claiming import LARGEST_CLAIM, Wish, claim, claim_capped, claim_expired, take_back
from horsies.lifecycle.waiting import next_due
from horsies.run.held import Stage
from horsies.run.loops import Wake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import asyncpg

    from horsies.lifecycle.claiming import ClaimedTask
    from horsies.run.child import Child
    from horsies.run.held import Holdings
    from horsies.run.slots import Slots
    from horsies.store.lane import Lane

_EXPIRED_EVERY_S = 1.0
_SECOND_LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What this worker may claim. Queues in the order in which they are served, each with its cluster-wide limit."""

    worker_id: str
    hostname: str
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


@dataclass(frozen=True, slots=True)
class Offer:
    """A claim ready to be made, with the places reserved for what it starts at once."""

    wish: Wish
    places: list[Child]
    is_async: bool
    room: int = 0


class Claimer:
    """One pass claims for all free room. Where nothing stands against it, the finisher's statements claim along.

    One claim is under way at a time, whoever makes it. What one has claimed whose reply was lost is given back before
    the next: only then is known which tokens are ours.
    """

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
        on_claimed: Callable[[list[ClaimedTask], list[Child]], None],
        on_taken_back: Callable[[int], None],
    ) -> None:
        self.interval_s = poll_s
        self.wake = Wake()
        self._rules = rules
        self._largest = min(rules.max_batch or LARGEST_CLAIM, LARGEST_CLAIM)
        self.lane = lane
        self._slots = slots
        self._holdings = holdings
        self._on_claimed = on_claimed
        self._on_taken_back = on_taken_back
        self._looks: list[float] = []
        """When to look for claims whose reply was lost."""
        self.claiming = asyncio.Lock()
        """Held while a claim is under way; whoever takes it knows that none is."""
        self._alarm: asyncio.TimerHandle | None = None
        self._expired_checked = 0.0
        self.draining = False
        """By order of an operator, or because the worker stops: claim nothing."""

    @property
    def queues(self) -> list[str]:
        return list(self._rules.queues)

    async def step(self) -> None:
        async with self.claiming:
            connection = await self.lane.ready()
            if self._looks and self._looks[0] <= time.monotonic():
                await self._take_back(connection)
            try:
                for is_async, names in self._kinds:
                    await self._fill(connection, names, is_async=is_async)
            except BaseException:
                self._look_soon()
                raise
            if self._has_room():  # otherwise the next room looks for itself
                await self._wake_when_due(connection)

    async def free_within(self, seconds: float) -> bool:
        """Whether `claiming` can be taken at once, now or after so long."""
        if self.claiming.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), self.claiming:
                    pass
        return not self.claiming.locked()

    @property
    def claims_along(self) -> bool:
        """Whether the finisher's statements claim: caps need locks of their own, several queues several claims."""
        return not self._rules.capped and len(self._rules.queues) == 1

    def offer(self, *, is_async: bool) -> Offer | None:
        """What to claim in the statement that stores how tasks ended; whoever takes it holds `claiming`."""
        names = self._rules.async_names if is_async else self._rules.sync_names
        room = self._room(is_async=is_async)
        if not self.claims_along or len(self._looks) > 1 or not names or room <= 0:
            return None
        return self._offer(self.queues[0], names, room, is_async=is_async)

    def accept(self, offer: Offer, claimed: list[ClaimedTask]) -> None:
        """The finisher's claim was made."""
        self._settle(offer, claimed)
        if len(claimed) < offer.room:
            self.wake.set()  # nothing more is due, which takes an alarm, or the rest of the room takes another claim

    def forget(self, offer: Offer) -> None:
        """The claim was made or not: the connection was lost over it."""
        self._look_soon()
        self._free(offer.places, offer)
        self.wake.set()

    @property
    def _kinds(self) -> list[tuple[bool, list[str]]]:
        kinds = (False, self._rules.sync_names), (True, self._rules.async_names)
        return [(is_async, names) for is_async, names in kinds if names]

    def _has_room(self) -> bool:
        return any(self._room(is_async=is_async) > 0 for is_async, _ in self._kinds)

    async def _fill(self, connection: asyncpg.Connection, names: list[str], *, is_async: bool) -> None:
        """Claim until the room is full that there is now, or nothing is left to claim.

        Not for room that comes meanwhile: it has its own wake-up, or the finisher claims for it.
        """
        room = self._room(is_async=is_async)
        while room > 0:
            claimed = await self._claim(connection, names, room, is_async=is_async)
            if claimed < min(room, self._largest):
                break
            room -= claimed
        else:
            return
        if not self._rules.capped and time.monotonic() - self._expired_checked > _EXPIRED_EVERY_S:
            self._expired_checked = time.monotonic()
            await self._claim_expired(connection, names, is_async=is_async)

    def _room(self, *, is_async: bool) -> int:
        if self.draining:
            return 0
        free = self._slots.capacity(is_async=is_async) - self._holdings.occupied(is_async=is_async)
        if self._rules.max_claimed:
            free = min(free, self._rules.max_claimed - self._holdings.count(Stage.CLAIMED))
        return free

    async def _claim(self, connection: asyncpg.Connection, names: list[str], room: int, *, is_async: bool) -> int:
        rules = self._rules
        if rules.capped:
            claimed = await claim_capped(
                connection,
                worker_id=rules.worker_id,
                queues=list(rules.queues.items()),
                budget=min(room, self._largest),
                cluster_cap=rules.cluster_cap,
                hard=rules.hard,
                lease_ms=rules.lease_ms,
                task_names=names,
            )
            self._on_claimed(claimed, [])
            return len(claimed)
        count = 0
        for queue in rules.queues:
            count += await self._claim_from(connection, queue, names, room - count, is_async=is_async)
            if count >= room:
                break
        return count

    async def _claim_from(
        self, connection: asyncpg.Connection, queue: str, names: list[str], room: int, *, is_async: bool
    ) -> int:
        offer = self._offer(queue, names, room, is_async=is_async)
        try:
            claimed = await claim(connection, self._rules.worker_id, offer.wish)
        except BaseException:
            self.forget(offer)
            raise
        self._settle(offer, claimed)
        return len(claimed)

    def _offer(self, queue: str, names: list[str], room: int, *, is_async: bool) -> Offer:
        """What a child waits for starts in the same statement, unless earlier claims still wait for a child."""
        rules = self._rules
        limit = min(room, self._largest)
        places = [] if self._holdings.waiting(is_async=is_async) else self._slots.reserve(limit, is_async=is_async)
        pids = [child.pid for child in places]
        return Offer(Wish(queue, limit, rules.lease_ms, names, pids, rules.hostname), places, is_async, room)

    def _settle(self, offer: Offer, claimed: list[ClaimedTask]) -> None:
        taken = {task.place for task in claimed}
        self._free([child for place, child in enumerate(offer.places) if place not in taken], offer)
        self._on_claimed(claimed, offer.places)

    def _free(self, places: list[Child], offer: Offer) -> None:
        for child in places:
            self._slots.unreserve(child, is_async=offer.is_async)

    def _look_soon(self) -> None:
        """Before the next claim, and once more later.

        The lost statement may still be under way: the server notices that its connection is gone when it answers.
        """
        now = time.monotonic()
        self._looks = [now, now + _SECOND_LOOK_S]
        asyncio.get_running_loop().call_later(_SECOND_LOOK_S, self.wake.set)

    async def _take_back(self, connection: asyncpg.Connection) -> None:
        """What a statement has claimed or started whose answer never came."""
        returned = await take_back(connection, self._rules.worker_id, self._holdings.tokens())
        del self._looks[0]
        if returned:
            self._on_taken_back(len(returned))

    async def _claim_expired(self, connection: asyncpg.Connection, names: list[str], *, is_async: bool) -> None:
        """Claims of workers that died between claim and start. claim_capped looks for them itself."""
        for queue in self._rules.queues:
            room = self._room(is_async=is_async)
            if room > 0:
                claimed = await claim_expired(
                    connection,
                    worker_id=self._rules.worker_id,
                    queue=queue,
                    limit=room,
                    lease_ms=self._rules.lease_ms,
                    task_names=names,
                )
                self._on_claimed(claimed, [])

    async def _wake_when_due(self, connection: asyncpg.Connection) -> None:
        """Nothing notifies when a delayed task or a retry falls due, so the next one sets an alarm here."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_in = await next_due(connection, self.queues)
        if due_in is not None and due_in < self.interval_s:
            self._alarm = asyncio.get_running_loop().call_later(max(due_in, 0.0), self.wake.set)
