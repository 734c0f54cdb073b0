"""The scheduler: sends what the schedules send that come due. It may run in many processes at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

from horsies import __version__
from horsies.lifecycle.scheduling import (
    MOST_DUE,
    RunningScheduler,
    define,
    due,
    register,
    remove_scheduler,
    renew_scheduler,
    run,
)
from horsies.run.database import wait_for_database
from horsies.run.loops import Supervisor, Wake
from horsies.run.schedule_failures import ScheduleFailures
from horsies.run.scheduled_workflows import ScheduledWorkflows
from horsies.run.settings import Identity
from horsies.store.dedicated_connection import DedicatedConnection, is_behind_pooler
from horsies.store.pool import CONNECTION_ERRORS
from horsies.task.scheduled import ScheduledWorkflow, schedules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.app import Horsies
    from horsies.lifecycle.scheduling import DueSchedule, ScheduleRun
    from horsies.run.events import Events
    from horsies.task.scheduled import Scheduled

_REGISTER_EVERY_S = 30.0
"""How often missing rows are made anew, and overdue ones of another pattern taken over: upstream's scheduler deletes
rows of other applications, and a scheduler of an older release may have restarted and be gone."""
_SEEN_EVERY_S = 10.0
_AFTER_THE_SECOND_S = 0.005
_GOODBYE_S = 2.0


class Schedules:
    """The loop of a scheduler: a tick reads which schedules are due, one statement for all, and sends their tasks."""

    name = "schedule"
    step_timeout_s = 30.0

    def __init__(
        self,
        schedules: Sequence[Scheduled],
        lane: DedicatedConnection,
        events: Events,
        identity: Identity,
        interval_s: float,
    ) -> None:
        self.wake = Wake()
        self.interval_s = interval_s
        self._every_s = interval_s
        self._ahead_s = 0.0
        """Of the database's clock against the one of this machine."""
        self.lane = lane
        self._schedules = {one.name: one for one in schedules}
        self._events = events
        self._failures = ScheduleFailures(events)
        workflows = [one for one in schedules if isinstance(one, ScheduledWorkflow)]
        self._workflows = ScheduledWorkflows(workflows, self._failures, events, look_again=self.wake.set)
        names = sorted(self._schedules)
        self._own_row = RunningScheduler(identity.worker_id, identity.hostname, identity.pid, names, __version__)
        self._registered_at: float | None = None
        self._seen_at: float | None = None

    async def step(self) -> None:
        if not self._schedules:
            return
        async with self.lane.turn() as connection:
            if self._registered_at is None or time.monotonic() - self._registered_at > _REGISTER_EVERY_S:
                await self._register(connection)
            if self._seen_at is None or time.monotonic() - self._seen_at > _SEEN_EVERY_S:
                await renew_scheduler(connection, self._own_row)
                self._seen_at = time.monotonic()
            names = [name for name in self._schedules if not self._failures.waits(name)]
            ready = [one for one in await due(connection, names) if self._is_ours(one)]
            await define(connection, {one.name: self._schedules[one.name] for one in ready if not one.is_defined})
            runs = [self._schedules[one.name].run_of(one) for one in ready]
            await self._send(connection, [one for one in runs if one.due.name not in self._workflows])
            await self._workflows.start(connection, [one for one in runs if one.due.name in self._workflows])
        # Just after the whole second, where the times of calendars lie: otherwise each would be half a second late.
        self.interval_s = self._every_s - (time.time() + self._ahead_s) % self._every_s + _AFTER_THE_SECOND_S

    async def leave(self) -> None:
        """After the last step: others see that this scheduler has stopped."""
        await self._workflows.close()
        if self._seen_at is not None:
            with suppress(*CONNECTION_ERRORS):
                async with asyncio.timeout(_GOODBYE_S), self.lane.turn() as connection:
                    await remove_scheduler(connection, self._own_row.scheduler_id)

    async def _register(self, connection: asyncpg.Connection) -> None:
        now, changed = await register(connection, self._schedules, starts=self._registered_at is None)
        self._registered_at, self._ahead_s = time.monotonic(), now.timestamp() - time.time()
        if changed:
            self._events.note("schedules planned", names=", ".join(sorted(changed)))

    def _is_ours(self, one: DueSchedule) -> bool:
        """A row with another hash was planned by another release: that one sends it, as long as it runs."""
        return one.config_hash == self._schedules[one.name].hash

    async def _send(self, connection: asyncpg.Connection, runs: Sequence[ScheduleRun]) -> None:
        if not runs:
            return
        sent, refused = await run(connection, runs)
        for one in runs:
            if one.due.name in sent:
                self._failures.forget(one.due.name)
                self._events.slots_used(one)
        for bad in refused:
            self._failures.add(bad.item.due.name, bad.error)
        if sent and (len(runs) >= MOST_DUE or any(one.next_run_at <= one.due.now for one in runs)):
            self.wake.set()  # more are due, or more slots were missed than one tick catches up on


class Scheduler:
    """A process that only schedules: the database, its connection and the loop, from start() to stop()."""

    def __init__(self, app: Horsies, events: Events) -> None:
        self.app = app
        self.events = events
        self.schedules = schedules_of(app, app.tasks)
        self._resources = AsyncExitStack()
        self._supervisor = Supervisor(app.config.resilience, events)

    async def start(self) -> None:
        self.database = await wait_for_database(self.app, self.events, self._resources)
        lane = DedicatedConnection(self.database, "scheduler", behind_pooler=await is_behind_pooler(self.database))
        self._resources.push_async_callback(lane.close)
        interval_s = self.app.config.schedule_interval_s
        loop = Schedules(self.schedules, lane, self.events, Identity(), interval_s)
        self._resources.push_async_callback(loop.leave)
        self._supervisor.start([loop])

    async def stop(self) -> None:
        """A tick that is under way is one statement: it has been made, or it has not."""
        await self._supervisor.stop_all()
        await self._resources.aclose()

    async def abort(self) -> None:
        """Release the resources of a start() that failed half-way."""
        await self._resources.aclose()

    def hurry(self) -> None:
        """A second signal changes nothing: a stop waits for one statement at most."""
