"""The scheduler: sends the tasks of the schedules that come due. It may run in many processes at once."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from horsies.lifecycle.scheduling import MOST_DUE, ScheduleRun, due, register, run
from horsies.run.database import wait_for_database
from horsies.run.loops import Supervisor, Wake
from horsies.store.dedicated_connection import Lane, is_behind_pooler
from horsies.task.scheduled import scheduled_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.app import Horsies
    from horsies.lifecycle.scheduling import DueSchedule
    from horsies.run.events import Events
    from horsies.task.scheduled import ScheduledTask

_REGISTER_EVERY_S = 30.0
"""How often missing rows are made anew, and overdue ones of another pattern taken over: upstream's scheduler deletes
rows of other applications, and a scheduler of an older release may have restarted and be gone."""
_AFTER_THE_SECOND_S = 0.005


class Schedules:
    """The loop of a scheduler: a tick reads which schedules are due, one statement for all, and sends their tasks."""

    name = "schedule"
    step_timeout_s = 30.0

    def __init__(self, schedules: Sequence[ScheduledTask], lane: Lane, events: Events, interval_s: float) -> None:
        self.wake = Wake()
        self.interval_s = interval_s
        self._every_s = interval_s
        self._ahead_s = 0.0
        """Of the database's clock against the one of this machine."""
        self.lane = lane
        self._schedules = {one.schedule.name: one for one in schedules}
        self._events = events
        self._registered_at: float | None = None

    async def step(self) -> None:
        if not self._schedules:
            return
        async with self.lane.turn() as connection:
            if self._registered_at is None or time.monotonic() - self._registered_at > _REGISTER_EVERY_S:
                await self._register(connection)
            ready = [one for one in await due(connection, self._schedules) if self._is_ours(one)]
            if ready:
                await self._send(connection, [self._run_of(one) for one in ready])
        # Just after the whole second, where the times of calendars lie: otherwise each would be half a second late.
        self.interval_s = self._every_s - (time.time() + self._ahead_s) % self._every_s + _AFTER_THE_SECOND_S

    async def _register(self, connection: asyncpg.Connection) -> None:
        hashes = {name: one.hash for name, one in self._schedules.items()}
        starts = self._registered_at is None
        now, changed = await register(
            connection, hashes, lambda name, now: self._schedules[name].next_run(now), starts=starts
        )
        self._registered_at, self._ahead_s = time.monotonic(), now.timestamp() - time.time()
        if changed:
            self._events.note("schedules planned", names=", ".join(sorted(changed)))

    def _is_ours(self, one: DueSchedule) -> bool:
        """A row with another hash was planned by another release: that one sends it, as long as it runs."""
        return one.config_hash == self._schedules[one.name].hash

    def _run_of(self, one: DueSchedule) -> ScheduleRun:
        scheduled = self._schedules[one.name]
        slots, next_run_at = scheduled.due_slots(one.slot, one.now)
        return ScheduleRun(one, next_run_at, [scheduled.at(slot) for slot in slots])

    async def _send(self, connection: asyncpg.Connection, runs: Sequence[ScheduleRun]) -> None:
        sent, refused = await run(connection, runs)
        for one in runs:
            if one.due.name in sent:
                self._events.scheduled(
                    one.due.name, one.tasks[-1].task_id, tasks=len(one.tasks), next_at=one.next_run_at
                )
        for bad in refused:
            self._events.warn("schedule not sent", name=bad.item.due.name, error=bad.error)
        if sent and (len(runs) >= MOST_DUE or any(one.next_run_at <= one.due.now for one in runs)):
            self.wake.set()  # more are due, or more slots were missed than one tick catches up on


class Scheduler:
    """A process that only schedules: the database, its connection and the loop, from start() to stop()."""

    def __init__(self, app: Horsies, events: Events) -> None:
        self.app = app
        self.events = events
        self.schedules = scheduled_tasks(app.config, app.tasks)
        self._resources = AsyncExitStack()
        self._supervisor = Supervisor(app.config.resilience, events)

    async def start(self) -> None:
        self.database = await wait_for_database(self.app.config, self.events, self._resources)
        lane = Lane(self.database, "scheduler", behind_pooler=await is_behind_pooler(self.database))
        self._resources.push_async_callback(lane.close)
        self._supervisor.start([Schedules(self.schedules, lane, self.events, self.app.config.schedule_interval_s)])

    async def stop(self) -> None:
        """A tick that is under way is one statement: it has been made, or it has not."""
        await self._supervisor.stop_all()
        await self._resources.aclose()

    async def abort(self) -> None:
        """Release the resources of a start() that failed half-way."""
        await self._resources.aclose()

    def hurry(self) -> None:
        """The second signal; a stop takes no time as it is."""
