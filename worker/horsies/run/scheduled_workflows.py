"""Starts the workflows of schedules: each with the move of its schedule, in one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from horsies.domain.errors import HorsiesError
from horsies.lifecycle.scheduling import ordered_runs, start, start_ordered
from horsies.run.threads import TooManyHangError, in_thread
from horsies.store.connect import is_transient
from horsies.store.isolate_bad_rows import ROW_ERRORS, is_about_a_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from horsies.domain.plan import WorkflowPlan
    from horsies.lifecycle.scheduling import OrderedRun, ScheduleRun
    from horsies.run.events import Events
    from horsies.run.schedule_failures import ScheduleFailures
    from horsies.task.scheduled import ScheduledWorkflow

_LONGEST_BUILD_S = 30.0
# A build that takes longer is awaited by a later tick: one that hangs would hold up all other schedules.
_PATIENCE_S = 0.25


class ScheduledWorkflows:
    """The schedules of an application that start workflows. Their `build_with` is user code: it runs beside the loop,
    and in no transaction."""

    def __init__(
        self,
        schedules: Sequence[ScheduledWorkflow],
        failures: ScheduleFailures,
        events: Events,
        *,
        look_again: Callable[[], None],
    ) -> None:
        self._schedules = {one.name: one for one in schedules}
        self._failures = failures
        self._events = events
        self._look_again = look_again
        self._builds: dict[str, asyncio.Task[WorkflowPlan]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._schedules

    async def start(self, connection: asyncpg.Connection, runs: Sequence[ScheduleRun]) -> None:
        """Start what is due, and what operators ordered, as far as it is built by now."""
        if not self._schedules:
            return
        orders = [one for one in await ordered_runs(connection, self._schedules) if not self._failures.waits(one.name)]
        wanted = {one.due.name for one in runs if one.sends} | {one.name for one in orders}
        plans = await self._built(wanted)
        for one in runs:
            if not one.sends or one.due.name in plans:
                await self._start(connection, one, plans.get(one.due.name))
        for order in orders:
            if order.name in plans:
                await self._start_ordered(connection, order, plans[order.name])

    async def close(self) -> None:
        for task in self._builds.values():
            task.cancel()
        await asyncio.gather(*self._builds.values(), return_exceptions=True)
        self._builds.clear()

    async def _built(self, names: set[str]) -> dict[str, WorkflowPlan]:
        """Of these schedules the workflows that are built by now; those that another scheduler has started are
        dropped."""
        for name in [name for name, build in self._builds.items() if build.done() and name not in names]:
            self._builds.pop(name).exception()
        new = {name: asyncio.create_task(self._build(name)) for name in names - self._builds.keys()}
        self._builds |= new
        if new:
            _, slow = await asyncio.wait(new.values(), timeout=_PATIENCE_S)
            for build in slow:
                build.add_done_callback(lambda _: self._look_again())
        plans: dict[str, WorkflowPlan] = {}
        for name in [name for name in names if self._builds[name].done()]:
            try:
                plans[name] = self._builds.pop(name).result()
            except (HorsiesError, TimeoutError) as error:
                self._failures.add(name, str(error))
        return plans

    async def _build(self, name: str) -> WorkflowPlan:
        try:
            return await in_thread(self._schedules[name].plan, name=name, longest_s=_LONGEST_BUILD_S, most_hanging=1)
        except TooManyHangError as error:
            raise TimeoutError(f"its workflow is not built again: {error}") from None
        except TimeoutError:
            raise TimeoutError(f"its workflow was not built within {_LONGEST_BUILD_S:g} s") from None

    async def _start(self, connection: asyncpg.Connection, one: ScheduleRun, plan: WorkflowPlan | None) -> None:
        try:
            moved = await start(connection, one, plan)
        except (asyncpg.PostgresError, *ROW_ERRORS) as error:
            self._failed(one.due.name, error)
        else:
            self._failures.forget(one.due.name)
            if moved:
                self._events.slots_used(one)
            if moved and one.next_run_at <= one.due.now:
                self._look_again()  # more slots were missed than one tick catches up on

    async def _start_ordered(self, connection: asyncpg.Connection, order: OrderedRun, plan: WorkflowPlan) -> None:
        try:
            started = await start_ordered(connection, order, plan)
        except (asyncpg.PostgresError, *ROW_ERRORS) as error:
            self._failed(order.name, error)
        else:
            self._failures.forget(order.name)
            if started:
                self._events.note("run now", schedule=order.name, workflow=order.workflow_id)

    def _failed(self, name: str, error: Exception) -> None:
        """An error of the server or the connection fails the tick; another one is that of this workflow."""
        if is_transient(error) or not is_about_a_row(error):
            raise error
        self._failures.add(name, str(error))
