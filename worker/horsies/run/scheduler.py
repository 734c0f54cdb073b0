"""The scheduler: sends what the schedules send that come due. It may run in many processes at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from horsies import __version__
from horsies.domain.errors import HorsiesError
from horsies.lifecycle.scheduling import (
    MOST_DUE,
    RunningScheduler,
    define,
    due,
    ordered_runs,
    register,
    remove_scheduler,
    renew_scheduler,
    run,
    start,
    start_ordered,
)
from horsies.run.loops import Supervisor, Wake
from horsies.run.serve import Service, wait_for_database
from horsies.run.settings import Identity
from horsies.run.threads import build_in_thread
from horsies.store.connect import is_transient
from horsies.store.dedicated_connection import DedicatedConnection, is_behind_pooler
from horsies.store.isolate_bad_rows import ROW_ERRORS, is_about_a_row
from horsies.store.pool import CONNECTION_ERRORS
from horsies.task.scheduled import ScheduledWorkflow, schedules_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from horsies.app import Horsies
    from horsies.domain.plan import WorkflowPlan
    from horsies.lifecycle.scheduling import ScheduleAdvance
    from horsies.run.events import Events
    from horsies.task.scheduled import Scheduled


_LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class _Failure:
    error: str
    count: int
    until: float


class ScheduleFailures:
    """A schedule whose row the database rejects, or whose workflow cannot be built, fails at each tick: its errors
    would fill the log, and its builds would delay others."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._failures: dict[str, _Failure] = {}

    def waits(self, name: str) -> bool:
        failure = self._failures.get(name)
        return failure is not None and time.monotonic() < failure.until

    def add(self, name: str, error: str) -> None:
        """Count a failure. A new error is logged at once, a repeated one at failures 2, 4, 8 and so on."""
        before = self._failures.get(name)
        count = before.count + 1 if before is not None and before.error == error else 1
        pause_s = min(2.0 ** (count - 1), _LONGEST_PAUSE_S)
        self._failures[name] = _Failure(error, count, time.monotonic() + pause_s)
        if count & (count - 1) == 0:
            self._events.schedule_failed(name, error, count, pause_s)

    def forget(self, name: str) -> None:
        self._failures.pop(name, None)


# A build that takes longer is awaited by a later tick: one that hangs would hold up all other schedules.
_BUILD_WAIT_S = 0.25


class ScheduledWorkflows:
    """The schedules of an application that start workflows. Their `build_with` is user code: it runs beside the loop,
    and in no transaction."""

    def __init__(
        self,
        schedules: Sequence[ScheduledWorkflow],
        failures: ScheduleFailures,
        events: Events,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._schedules = {one.name: one for one in schedules}
        self._failures = failures
        self._events = events
        self._wake = wake
        self._builds: dict[str, asyncio.Task[WorkflowPlan]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._schedules

    async def start(self, connection: asyncpg.Connection, runs: Sequence[ScheduleAdvance]) -> None:
        """Start what is due, and what operators ordered, as far as it is built by now."""
        if not self._schedules:
            return
        orders = [one for one in await ordered_runs(connection, self._schedules) if not self._failures.waits(one.name)]
        wanted = {one.due.name for one in runs if one.sends} | {one.name for one in orders}
        plans = await self._built(wanted)
        for one in runs:
            name, plan = one.due.name, plans.get(one.due.name)
            if (plan is not None or not one.sends) and await self._stored(name, start(connection, one, plan)):
                self._events.slots_used(one)
                if one.next_run_at <= one.due.now:
                    self._wake()  # more slots were missed than one tick catches up on
        for order in orders:
            plan = plans.get(order.name)
            if plan is not None and await self._stored(order.name, start_ordered(connection, order, plan)):
                self._events.note("schedule run now", schedule=order.name, workflow=order.workflow_id)

    async def close(self) -> None:
        for task in self._builds.values():
            task.cancel()
        await asyncio.gather(*self._builds.values(), return_exceptions=True)
        self._builds.clear()

    async def _built(self, names: set[str]) -> dict[str, WorkflowPlan]:
        """Return the workflows that are built by now; drop those that another scheduler has started."""
        for name in [name for name, build in self._builds.items() if build.done() and name not in names]:
            self._builds.pop(name).exception()
        new = {
            name: asyncio.create_task(
                build_in_thread(self._schedules[name].plan, name=name, what="its workflow", most_hanging=1)
            )
            for name in names - self._builds.keys()
        }
        self._builds |= new
        if new:
            _, slow = await asyncio.wait(new.values(), timeout=_BUILD_WAIT_S)
            for build in slow:
                build.add_done_callback(lambda _: self._wake())
        plans: dict[str, WorkflowPlan] = {}
        for name in [name for name in names if self._builds[name].done()]:
            try:
                plans[name] = self._builds.pop(name).result()
            except (HorsiesError, TimeoutError) as error:
                self._failures.add(name, str(error))
        return plans

    async def _stored(self, name: str, starting: Awaitable[bool]) -> bool:
        """Return whether the workflow was started; an error of the server or the connection fails the tick."""
        try:
            started = await starting
        except (asyncpg.PostgresError, *ROW_ERRORS) as error:
            if is_transient(error) or not is_about_a_row(error):
                raise
            self._failures.add(name, str(error))
            return False
        self._failures.forget(name)
        return started


_REGISTER_EVERY_S = 30.0
"""Interval at which missing rows are inserted again, and overdue ones of another pattern taken over: upstream's
scheduler deletes rows of other applications, and a scheduler of an older release may have restarted and be gone."""
_SEEN_EVERY_S = 5.0
_MAY_BE_LATE_S = 3.0
"""A scheduler renews its row in the first step after that time; so long a step may take before it counts as lost."""
_AFTER_THE_SECOND_S = 0.005
_CLOSE_TIMEOUT_S = 2.0


class ScheduleLoop:
    """The loop of a scheduler: a tick reads which schedules are due, one statement for all, and sends their tasks."""

    name = "schedule"
    step_timeout_s = 30.0

    def __init__(
        self,
        schedules: Sequence[Scheduled],
        dedicated: DedicatedConnection,
        events: Events,
        identity: Identity,
        interval_s: float,
    ) -> None:
        self.wake = Wake()
        self.interval_s = interval_s
        self._every_s = interval_s
        self._ahead_s = 0.0
        """Of the database's clock against the one of this machine."""
        self.dedicated = dedicated
        self._schedules = {one.name: one for one in schedules}
        self._events = events
        self._failures = ScheduleFailures(events)
        workflows = [one for one in schedules if isinstance(one, ScheduledWorkflow)]
        self._workflows = ScheduledWorkflows(workflows, self._failures, events, wake=self.wake.set)
        names = sorted(self._schedules)
        self._own_row = RunningScheduler(
            scheduler_id=identity.worker_id,
            hostname=identity.hostname,
            pid=identity.pid,
            schedules=names,
            version=__version__,
            lost_after_s=_SEEN_EVERY_S + interval_s + _MAY_BE_LATE_S,
        )
        self._registered_at: float | None = None
        self._seen_at: float | None = None

    async def step(self) -> None:
        if not self._schedules:
            return
        async with self.dedicated.acquire() as connection:
            if self._registered_at is None or time.monotonic() - self._registered_at > _REGISTER_EVERY_S:
                await self._register(connection)
            if self._seen_at is None or time.monotonic() - self._seen_at > _SEEN_EVERY_S:
                await renew_scheduler(connection, self._own_row)
                self._seen_at = time.monotonic()
            names = [name for name in self._schedules if not self._failures.waits(name)]
            # A row with another hash was planned by another release: that one sends it, as long as it runs.
            ready = [one for one in await due(connection, names) if one.config_hash == self._schedules[one.name].hash]
            await define(connection, {one.name: self._schedules[one.name] for one in ready if not one.is_defined})
            runs = [self._schedules[one.name].run_of(one) for one in ready]
            await self._send(connection, [one for one in runs if one.due.name not in self._workflows])
            await self._workflows.start(connection, [one for one in runs if one.due.name in self._workflows])
        # Just after the whole second, where the times of calendars lie: otherwise each would be half a second late.
        self.interval_s = self._every_s - (time.time() + self._ahead_s) % self._every_s + _AFTER_THE_SECOND_S

    async def leave(self) -> None:
        """Delete its row after the last step: others see that this scheduler has stopped."""
        await self._workflows.close()
        if self._seen_at is not None:
            with suppress(*CONNECTION_ERRORS):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S), self.dedicated.acquire() as connection:
                    await remove_scheduler(connection, self._own_row.scheduler_id)

    async def _register(self, connection: asyncpg.Connection) -> None:
        now, changed = await register(connection, self._schedules, starts=self._registered_at is None)
        self._registered_at, self._ahead_s = time.monotonic(), now.timestamp() - time.time()
        if changed:
            self._events.note("schedules planned", names=", ".join(sorted(changed)))

    async def _send(self, connection: asyncpg.Connection, runs: Sequence[ScheduleAdvance]) -> None:
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


class Scheduler(Service):
    """A process that only schedules: the database, its connection and the loop, from start() to stop()."""

    def __init__(self, app: Horsies, events: Events) -> None:
        self.app = app
        self.events = events
        self.schedules = schedules_of(app, app.tasks)
        self._resources = AsyncExitStack()
        self._supervisor = Supervisor(app.config.resilience, events)

    async def start(self) -> None:
        self.database = await wait_for_database(self.app, self.events, self._resources)
        dedicated = DedicatedConnection(self.database, "scheduler", behind_pooler=await is_behind_pooler(self.database))
        self._resources.push_async_callback(dedicated.close)
        interval_s = self.app.config.schedule_interval_s
        loop = ScheduleLoop(self.schedules, dedicated, self.events, Identity(), interval_s)
        self._resources.push_async_callback(loop.leave)
        self._supervisor.start([loop])

    async def stop(self) -> None:
        """Stop; a tick that is under way is one statement, which has been made or not."""
        await self._supervisor.stop_all()
        await self._resources.aclose()
