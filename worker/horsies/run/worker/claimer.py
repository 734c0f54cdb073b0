"""Fills free room with claimed tasks: at once when something may have become claimable, else at every poll."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from horsies.lifecycle.claiming import (
    LARGEST_CLAIM,
    ClaimRequest,
    claim,
    next_due,
    release_expired,
)
from horsies.lifecycle.finishing import finish_and_claim
from horsies.run.guard import clock
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.task_flow import WorkerLoop
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import asyncpg

    from horsies.lifecycle.claim_token import Token
    from horsies.lifecycle.claiming import ClaimedTask, TupleId
    from horsies.lifecycle.finishing import Finished, Outcome
    from horsies.run.loops import Outage
    from horsies.run.pool.child import Child
    from horsies.run.worker.starter import LostClaims, Starter
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


_FOUND_TTL_S = 0.02
"""Time for which the claims that follow may take the tasks that a search has found.

If many tasks that cannot run stand before those that can, each claim would search: 0.05 ms, 0.005 ms for each name.
"""
_SPARE = 16
"""Number of extra tasks that a claim is given: other workers may have claimed the first of them."""
_BLOCKED_S = 1.0
"""Time for which claims search at once after one had to.

The statement that stores an outcome and claims does not search by itself, so each end of a task would need another
claim: 0.75 times the rate, measured behind 200 000 tasks of unknown names.
"""


@dataclass(slots=True)
class _Searched:
    at: float
    found: Sequence[TupleId]
    """The tasks that come after those that were claimed."""
    found_at: float


class ClaimOrder:
    """The finds of the last search, by queue and kind of task."""

    def __init__(self) -> None:
        self._searched: dict[tuple[str, bool], _Searched] = {}

    def following(self, queue: str, limit: int, *, is_async: bool) -> Sequence[TupleId] | None:
        """Return what to pass to a claim of at most `limit` tasks: the tasks that come next.

        None: it begins with the first tasks of the queue. An empty one: it searches at once.
        """
        if not self._searched:
            return None
        searched, now = self._searched.get((queue, is_async)), time.monotonic()
        if searched is None or now - searched.at > _BLOCKED_S:
            return None
        return searched.found[: limit + _SPARE] if now - searched.found_at <= _FOUND_TTL_S else []

    def remember(
        self, queue: str, following: Sequence[TupleId] | None, claimed: list[ClaimedTask], *, is_async: bool
    ) -> None:
        """Keep what a claim has found that was given `following`."""
        after = next((task.after for task in claimed if task.after is not None), None)
        if after is None and not self._searched:
            return  # as for nearly every claim
        known, now = self._searched.pop((queue, is_async), None), time.monotonic()
        last = max((task.number for task in claimed if task.number is not None), default=None)
        if after is not None:
            self._searched[queue, is_async] = _Searched(now, after, now)
        elif known is not None and following and last is not None:
            if known.found[: len(following)] == following:  # otherwise another claim was answered meanwhile
                known.found = known.found[last:]
            self._searched[queue, is_async] = known

    def expire(self) -> None:
        """Forget what was found: a task was enqueued that may come before it."""
        for searched in self._searched.values():
            searched.found_at = float("-inf")


_EXPIRED_EVERY_S = 1.0
_MANY_EXPIRED_EVERY_S = 0.25
_MANY_EXPIRED = 500
_CAP_FULL_TTL_S = 0.1
"""Time for which claims skip a queue whose cap had no room: asking again cost each claim from other queues 0.27 ms."""
_RETRIES_EVERY_S = 0.1
_CLAIM_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class _Offer:
    """A claim ready to be made, with the slots of children reserved for tasks that it starts at once."""

    request: ClaimRequest
    children: list[Child]
    is_async: bool
    sent_at: int = field(default_factory=clock)


class Claimer(WorkerLoop):
    """One pass claims for all free room. Where possible, the finisher's statements claim as well.

    One claim is under way at a time, in the claimer or the finisher.
    """

    name = "claim"
    step_timeout_s = 30.0

    def __init__(
        self, dedicated: DedicatedConnection, flow: TaskFlow, starter: Starter, lost_claims: LostClaims, outage: Outage
    ) -> None:
        super().__init__(dedicated, flow)
        self.interval_s = flow.app.config.resilience.notify_poll_interval_ms / 1000
        self.wake = flow.claim
        self._largest = min(flow.rules.max_batch or LARGEST_CLAIM, LARGEST_CLAIM)
        self._starter = starter
        self._lost_claims = lost_claims
        self._outage = outage
        self._connection: asyncpg.Connection | None = None
        self.claiming = asyncio.Lock()
        """Held while a claim is under way; its holder knows that there is no other."""
        self._alarm: asyncio.TimerHandle | None = None
        self._release_expired_at = 0.0
        self._retry_alarm_at = 0.0
        self._order = ClaimOrder()
        self._full: dict[str | None, float] = {}
        """The queues whose cap had no room after the last claim, and since when; None: the cluster's cap."""
        self._got_room: set[str | None] = set()
        """The caps under which a task has ended since the last claim began."""
        self._freed: dict[str, str] = {}
        """Queues in which tasks of this worker have ended since then, each with one of these tasks."""
        self.draining = False
        """By an operator's order, or because the worker stops: claim nothing."""

    @property
    def queues(self) -> list[str]:
        return list(self._rules.queues)

    def notice(self, queue: str | None = None) -> None:
        """Claim: a task was enqueued, in this queue or in any, that may come before all known tasks.

        While the cap of its queue has no room, no claim is needed: the end of a task will trigger one.
        """
        self._order.expire()
        if queue is None or not self._is_full(queue):
            self.wake.set()

    def notice_room(self, queue: str) -> None:
        """Claim: a task of this queue has ended in another worker, which left the room under the cap to others.

        Only a claim that the cap has rejected, or may be rejecting at this moment, is repeated.
        """
        self._got_room |= {queue, None}
        if self._is_full(queue) or self.claiming.locked():
            self.wake.set()

    def ended(self, tasks: Mapping[str, str]) -> None:
        """Note, by queue, a task of this worker that has ended. It claims first, then announces the remaining room."""
        self._freed.update(tasks)
        self._got_room |= {*tasks, None}
        self.wake.set()

    def retry_in(self, delay_s: float) -> None:
        """Wake when a retry falls due, which raises no notification; a later one is found by the next poll."""
        if delay_s < self.interval_s:
            asyncio.get_running_loop().call_later(delay_s, self._flow.enqueued)

    async def step(self) -> None:
        async with self.claiming:
            self._forget_full()
            connection = await self.dedicated.ready()
            if self._connection not in (connection, None):
                self._lost_claims.search_soon()  # the server may be another one by now, with fewer transactions
            self._connection = connection
            if self._lost_claims.is_due:
                await self._lost_claims.release_due(connection)
            try:
                for is_async, names in self._kinds:
                    if not self._caps_are_full:
                        await self._fill(connection, names, is_async=is_async)
            except BaseException as error:
                self._lost_claims.search_after(error)
                raise
            if self._freed:
                await self._announce_room(connection)
            if any(
                self._room(is_async=is_async) > 0 for is_async, _ in self._kinds
            ):  # otherwise the next free slot triggers it
                await self._release_expired(connection)
                await self._wake_when_due(connection)

    async def finish_and_claim(
        self, connection: asyncpg.Connection, outcomes: list[Outcome], *, is_async: bool
    ) -> dict[Token, Finished] | None:
        """Store outcomes, and claim in the same statement for the slots that they free; None if that is not possible.

        A claim under way is awaited: it takes a fraction of a millisecond unless it is stuck.
        """
        if self.claiming.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLAIM_WAIT_S), self.claiming:
                    pass
            if self.claiming.locked():
                return None
        async with self.claiming:
            names = self._rules.async_names if is_async else self._rules.sync_names
            room = self._room(is_async=is_async)
            if not self._rules.claims_along or self._lost_claims.expected or not names or room <= 0:
                return None
            offer = self._offer(self.queues[0], names, room, is_async=is_async)
            with self._reserved(offer):
                finished, claimed = await finish_and_claim(connection, self._rules.worker_id, outcomes, offer.request)
            self._take(offer, claimed)
        if len(claimed) < room:
            self.wake.set()  # nothing more is due and the alarm must be set, or the room needs another claim
        return finished

    def failed(self, error: BaseException) -> None:
        """Note that a claim has failed. If the connection was lost, it may have been made or not."""
        self._lost_claims.search_after(error)
        self.wake.set()

    @property
    def holds_back(self) -> bool:
        """True while nothing may be claimed."""
        return self.draining or self._outage.holds_back

    @property
    def _caps_are_full(self) -> bool:
        """True if no queue has room under its cap or the cluster's cap."""
        return all(self._is_full(queue) for queue in self._rules.queues)

    def _is_full(self, queue: str) -> bool:
        return queue in self._full or None in self._full

    def _forget_full(self) -> None:
        """Forget caps that got room during a claim, which may still have counted the task that ended: repeat it."""
        now = time.monotonic()
        self._full = {
            queue: since
            for queue, since in self._full.items()
            if now - since < _CAP_FULL_TTL_S and queue not in self._got_room
        }
        self._got_room.clear()

    @property
    def _kinds(self) -> list[tuple[bool, list[str]]]:
        kinds = (False, self._rules.sync_names), (True, self._rules.async_names)
        return [(is_async, names) for is_async, names in kinds if names]

    async def _fill(self, connection: asyncpg.Connection, names: list[str], *, is_async: bool) -> None:
        """Claim until the present room is full or nothing is left to claim.

        Room that arises meanwhile has its own wake-up, or the finisher claims for it.
        """
        room = self._room(is_async=is_async)
        while room > 0:
            claimed = await self._claim(connection, names, room, is_async=is_async)
            if claimed < min(room, self._largest):
                break
            room -= claimed

    def _room(self, *, is_async: bool) -> int:
        if self.holds_back:
            return 0
        free = self._flow.capacity(is_async=is_async) - self._flow.tasks.occupied(is_async=is_async)
        if self._rules.max_claimed:
            free = min(free, self._rules.max_claimed - self._flow.tasks.count(Stage.CLAIMED))
        return free

    async def _claim(self, connection: asyncpg.Connection, names: list[str], room: int, *, is_async: bool) -> int:
        rules = self._rules
        if rules.capped:
            queues = [queue for queue in rules.queues if queue not in self._full]
            claims = await rules.claim_capped(connection, queues, min(room, self._largest), names)
            self._full |= dict.fromkeys(claims.full, time.monotonic())
            self._accept(claims.tasks, [], 0)
            return len(claims.tasks)
        count = 0
        for queue in rules.queues:
            offer = self._offer(queue, names, room - count, is_async=is_async)
            with self._reserved(offer):
                claimed = await claim(connection, rules.worker_id, offer.request)
            self._take(offer, claimed)
            count += len(claimed)
            if count >= room:
                break
        return count

    def _offer(self, queue: str, names: list[str], room: int, *, is_async: bool) -> _Offer:
        """Prepare a claim; its tasks start in the same statement if a child is free and no earlier claim waits."""
        rules = self._rules
        limit = min(room, self._largest)
        children = [] if self._flow.tasks.waiting(is_async=is_async) else self._flow.reserve(limit, is_async=is_async)
        pids = [child.pid for child in children]
        following = self._order.following(queue, limit, is_async=is_async)
        request = ClaimRequest(queue, limit, rules.lease_ms, names, pids, rules.hostname, following)
        return _Offer(request, children, is_async)

    @contextmanager
    def _reserved(self, offer: _Offer) -> Iterator[None]:
        """Free the slots if the claim fails."""
        try:
            yield
        except BaseException as error:
            self.failed(error)
            self._free(offer.children, offer)
            raise

    def _take(self, offer: _Offer, claimed: list[ClaimedTask]) -> None:
        request = offer.request
        self._order.remember(request.queue, request.following, claimed, is_async=offer.is_async)
        taken = {task.position for task in claimed}
        self._free([child for position, child in enumerate(offer.children) if position not in taken], offer)
        self._accept(claimed, offer.children, offer.sent_at)

    def _accept(self, claimed: list[ClaimedTask], children: list[Child], sent_at: int) -> None:
        """Take claimed tasks: those with a position are RUNNING already, the others have to be started."""
        for task in claimed:
            entry = self._rules.entry(task)
            if task.position is None:
                self._starter.add(entry)
            else:
                entry.stage, entry.child, entry.confirmed_at = Stage.RUNNING, children[task.position], sent_at
                self._flow.tasks.add(entry)
                self._starter.begin(entry)

    def _free(self, children: list[Child], offer: _Offer) -> None:
        for child in children:
            self._flow.unreserve(child, is_async=offer.is_async)

    async def _announce_room(self, connection: asyncpg.Connection) -> None:
        """Announce caps that have room after this worker's own claim: other workers may be waiting for it."""
        queues = self.queues if self._rules.cluster_cap is not None else list(self._freed)
        left = [queue for queue in queues if not self._is_full(queue)]
        task_id = next(iter(self._freed.values()))
        if left:
            await connection.execute(statement(__name__, "announce_room"), left, task_id)
        self._freed.clear()

    async def _release_expired(self, connection: asyncpg.Connection) -> None:
        """Release claims of workers that died before the start: they are claimed again in the order of the queue."""
        if time.monotonic() < self._release_expired_at:
            return
        released = await release_expired(connection, self.queues)
        pause_s = _MANY_EXPIRED_EVERY_S if released >= _MANY_EXPIRED else _EXPIRED_EVERY_S
        self._release_expired_at = time.monotonic() + pause_s
        if released:
            self.wake.set()
            asyncio.get_running_loop().call_later(pause_s, self.wake.set)

    async def _wake_when_due(self, connection: asyncpg.Connection) -> None:
        """Set an alarm for the next delayed task or retry: no notification is sent when it falls due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._caps_are_full:
            return
        due_in, retry_in = await next_due(connection, [queue for queue in self.queues if queue not in self._full])
        if retry_in is not None:  # of any queue: many may follow each other that are for other workers
            now = time.monotonic()
            if self._retry_alarm_at <= now:
                retry_in = max(retry_in, self._retry_alarm_at + _RETRIES_EVERY_S - now)
            if due_in is None or retry_in < due_in:
                due_in, self._retry_alarm_at = retry_in, now + retry_in
        if due_in is not None and due_in < self.interval_s:
            self._alarm = asyncio.get_running_loop().call_later(max(due_in, 0.0), self.wake.set)
