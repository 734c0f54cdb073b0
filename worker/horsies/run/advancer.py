"""Brings what has become of tasks into their workflows: one transaction under way, what ends meanwhile is the next."""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING

import asyncpg

from horsies.lifecycle.advancing import Advanced, advance, nodes_started
from horsies.run.loops import Wake
from horsies.store.connect import is_transient
from horsies.store.piecemeal import DAMAGE, is_about_a_row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from horsies.run.events import Events
    from horsies.store.lane import Lane

_LARGEST_BATCH = 200
# A task that ends sooner is never shown as running; one transaction for each would be as much as its end costs.
_SHORT_TASK_S = 0.05


class Advancer:
    """The second transaction of a finish. What it has not written when the worker dies, the sweep puts right.

    That a task has started is written here too: its user code does not wait for it, and where the task has ended
    meanwhile nothing is written at all.
    """

    name = "advance"
    interval_s = 5.0
    step_timeout_s = 60.0

    def __init__(
        self,
        lane: Lane,
        events: Events,
        *,
        on_enqueued: Callable[[], None],
        on_ready_children: Callable[[], None],
        on_done: Callable[[], None],
    ) -> None:
        self.wake = Wake()
        self.lane = lane
        self._events = events
        self._on_enqueued = on_enqueued
        self._on_ready_children = on_ready_children
        self._on_done = on_done
        self._started: dict[str, float] = {}
        """Since when, in their order; written as soon as the first has run for some time."""
        self._alarm: asyncio.TimerHandle | None = None
        self._ended: dict[str, object] = {}
        """Each with a mark: who ends again while its advance is under way is advanced again."""

    @property
    def pending(self) -> int:
        """How many ends are about to reach their workflows."""
        return len(self._ended)

    def started(self, task_id: str) -> None:
        """The task of a node runs."""
        self._started[task_id] = time.monotonic()
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(_SHORT_TASK_S, self._look)

    def ended(self, task_id: str) -> None:
        """The task of a node may have ended: finished, expired, or taken from us by somebody who ended it."""
        self._started.pop(task_id, None)
        self._ended[task_id] = object()
        self.wake.set()

    async def step(self) -> None:
        if self._ended:
            await self._advance(dict(islice(self._ended.items(), _LARGEST_BATCH)))
        if running := self._running():
            await self._run_nodes(running)
        if self._ended or self._running():
            self.wake.set()

    def _look(self) -> None:
        self._alarm = None
        if self._started:
            due_in = next(iter(self._started.values())) + _SHORT_TASK_S - time.monotonic()
            if due_in <= 0:
                self.wake.set()
                due_in = _SHORT_TASK_S
            self._alarm = asyncio.get_running_loop().call_later(due_in, self._look)

    def _running(self) -> list[str]:
        """Those of the tasks that have started that are not short."""
        since = time.monotonic() - _SHORT_TASK_S
        return [task_id for task_id, at in islice(self._started.items(), _LARGEST_BATCH) if at <= since]

    async def _advance(self, marks: dict[str, object]) -> None:
        async with self.lane.turn() as connection:
            for done in await self._piecemeal(list(marks), lambda ids: advance(connection, ids)):
                self._tell(done)
        for task_id, mark in marks.items():
            if self._ended[task_id] is mark:
                del self._ended[task_id]
        self._on_done()

    async def _run_nodes(self, task_ids: list[str]) -> None:
        async with self.lane.turn() as connection:
            await self._piecemeal(task_ids, lambda ids: nodes_started(connection, ids))
        for task_id in task_ids:
            self._started.pop(task_id, None)

    def _tell(self, done: Advanced) -> None:
        for workflow_id, status in done.finished:
            self._events.note("workflow", id=workflow_id, status=status.value)
        if done.enqueued:
            self._on_enqueued()
        if done.ready_children:
            self._on_ready_children()

    async def _piecemeal(
        self, task_ids: list[str], do: Callable[[Collection[str]], Awaitable[Advanced | int]]
    ) -> list[Advanced]:
        """A workflow that cannot be changed, as its row is damaged or a trigger forbids it, holds up no other."""
        try:
            answers = [await do(task_ids)]
        except (asyncpg.PostgresError, *DAMAGE) as error:
            if not _is_of_one_row(error):
                raise
            answers = [await self._alone(task_id, do) for task_id in task_ids]
        return [answer for answer in answers if isinstance(answer, Advanced)]

    async def _alone(self, task_id: str, do: Callable[[Collection[str]], Awaitable[Advanced | int]]) -> Advanced | int:
        try:
            return await do([task_id])
        except (asyncpg.PostgresError, *DAMAGE) as error:
            if not _is_of_one_row(error):
                raise
            # The sweep comes back to it, and says so again.
            self._events.warn("workflow not advanced", task=task_id, error=f"{type(error).__name__}: {error}")
            return Advanced()


def _is_of_one_row(error: Exception) -> bool:
    """Whether it would come again, and without a certain row would not."""
    return is_about_a_row(error) and not is_transient(error)
