"""One worker: its parts wired together, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horsies.app_checks import checked
from horsies.domain.errors import ConfigurationError, ErrorCode, MultipleValidationErrors, ValidationReport
from horsies.hooks import WorkerStarted, WorkerStopped
from horsies.run.contract import ChildSpec, LeaseTerms
from horsies.run.events import Events, one_line
from horsies.run.loops import Loop, Supervisor
from horsies.run.metrics.worker_metrics import Phase, Probes
from horsies.run.pool.child_processes import Children
from horsies.run.scheduler import ScheduleLoop
from horsies.run.serve import Service, wait_for_database
from horsies.run.settings import WorkerSettings
from horsies.run.worker.advancer import Advancer
from horsies.run.worker.beats import Beats
from horsies.run.worker.claimer import Claimer
from horsies.run.worker.finisher import Finisher
from horsies.run.worker.hook_threads import Hooks
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.orders import LOOKS_CHANNEL, ORDERS_CHANNEL, Looks, Orders
from horsies.run.worker.reload import Reloader
from horsies.run.worker.snapshots import ProgressWriter, Snapshots
from horsies.run.worker.starter import LostClaims, Starter
from horsies.run.worker.subworkflow_builder import CHANNEL as READY_CHANNEL, SubworkflowBuilder
from horsies.run.worker.sweeper import elections
from horsies.run.worker.task_flow import TaskFlow
from horsies.run.worker.unknown_tasks import UnknownTasks
from horsies.store.dedicated_connection import DedicatedConnection, inspect_server
from horsies.store.listener import Listener
from horsies.store.pool import CONNECTION_ERRORS
from horsies.task.scheduled import schedules_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import ModuleType

    from horsies.app import Horsies


_TASKS_ARE_BACK = frozenset({"capacity:released", "capacity:interrupted", "capacity:swept"})
_DEDICATED = ("claim", "start", "finish", "advance", "beat", "upkeep")
_LAST_CLAIM_S = 1.0
_RELEASE_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 2.0
_LEAST_CLOSE_S = 0.1
_STORE_HURRIED_S = 3.0
_HOOKS_S = 2.0


class Worker(Service):
    """Claims, runs and finishes tasks from start() to stop()."""

    def __init__(self, app: Horsies, settings: WorkerSettings, events: Events) -> None:
        self.app = app
        self.settings = settings
        self.events = events
        self.schedules = schedules_of(app, app.tasks) if settings.scheduler else []
        self.flow = TaskFlow(app, settings, events)
        self.identity = self.flow.identity
        self.started_at = datetime.now(UTC)
        self._resources = AsyncExitStack()
        self.loops = Supervisor(app.config.resilience, events)
        self._hurry = asyncio.Event()
        self._hooks: Hooks | None = None
        self.dedicated: list[DedicatedConnection] = []
        self.phase = Phase.STARTING
        self.probes = None if settings.metrics_port is None else Probes(self)
        self.lost: list[str] = []
        """After stop(): ids of the tasks whose outcomes could not be stored; a sweep counts their runs as crashed."""

    async def start(self) -> None:
        """Wait for the database, check its schema, start the children, then the loops."""
        if self.probes is not None:
            await self.probes.start(self._resources)
        self.database = await wait_for_database(self.app, self.events, self._resources)
        self.behind_pooler, self.warnings = await inspect_server(self.database, durable=self.app.config.broker.durable)
        self._wire()
        self._resources.push_async_callback(self.children.close, 0.0)
        if self.settings.reload:
            self._resources.push_async_callback(Reloader(self).close)
        await self.children.start()
        await self._listen()
        if self.app.hooks.of_worker():
            self._hooks = Hooks(self.app.hooks, self.events, self.identity.worker_id)
            self.events.observers.append(self._hooks)
        loops: list[Loop] = [self.claimer, self.starter, self.finisher, self.beats, self.snapshots, self.unknown_tasks]
        loops += [self.orders, self.looks, self.progress_writer, self.advancer, self.subworkflow_builder]
        loops += self.elections
        if self.schedules:
            interval_s = self.app.config.schedule_interval_s
            schedules = ScheduleLoop(self.schedules, self._dedicate("schedule"), self.events, self.identity, interval_s)
            self._resources.push_async_callback(schedules.leave)
            loops.append(schedules)
        self.loops.start(loops)
        for text in self.warnings:
            self.events.warn("server setting", reason=text)
        self.phase = Phase.RUNNING
        if self._hooks is not None:
            who = self.identity
            self._hooks.notify(WorkerStarted(who.worker_id, who.hostname, who.pid, tuple(self.claimer.queues)))
        self.events.note("ready", worker=self.identity.worker_id, processes=self.settings.processes)

    @property
    def connections(self) -> int:
        """The number of its connections to PostgreSQL; one more while it sweeps, and one while it prunes."""
        return len(_DEDICATED) + (0 if self.behind_pooler else 1) + bool(self.schedules)

    async def abort(self) -> None:
        if self._hooks is not None:
            await self._hooks.close(0.0)
        await self._resources.aclose()

    def hurry(self) -> None:
        """Stop running tasks now: a second signal has come."""
        self._hurry.set()
        self.flow.quiet.set()

    async def stop(self) -> None:
        """Stop claiming, release claims, drain while beats go on, interrupt the rest, store every outcome."""
        self.phase = Phase.STOPPING
        begin, times = time.monotonic(), self.settings.stop_times
        self.loops.hurry()
        await self._stop_claiming()
        await self.release_claims()
        await self._drain(begin + times.drain_s)
        if self.flow.tasks.count(Stage.RUNNING):
            await self._interrupt(times.stop_task_s)
        self.flow.outbox.offer_rejected()
        outbox, advancer = self.flow.outbox, self.advancer
        stored_by = begin + times.store_s
        await self._until(lambda: outbox.pending + advancer.pending == 0, stored_by, hurried=_STORE_HURRIED_S)
        self.lost = self.flow.outbox.log_lost()
        hooks, who = self._hooks, self.identity
        if hooks is not None:
            hooks.notify(WorkerStopped(who.worker_id, who.hostname, who.pid, tuple(self.lost)))
        await self._leave(begin + times.end_s)
        if hooks is not None:
            await hooks.close(min(_HOOKS_S, begin + times.end_s - time.monotonic()))

    async def _leave(self, end: float) -> None:
        """End the loops, write the last snapshot, close all connections; after `end`, do not wait for an answer."""
        try:
            async with asyncio.timeout(end - time.monotonic()):
                await self.loops.stop_all()
                await self.release_claims()
                await self._store_last_snapshot()
                await self.children.close(_CLOSE_TIMEOUT_S)
        except TimeoutError:
            self.events.warn(
                "shutdown deadline exceeded", reason="the database does not answer, or a child does not end"
            )
            for dedicated in self.dedicated:
                dedicated.discard()
        with suppress(*CONNECTION_ERRORS):  # a connection that cannot be closed has been cut
            async with asyncio.timeout(max(end - time.monotonic(), _LEAST_CLOSE_S)):
                await self._resources.aclose()

    def _wire(self) -> None:
        """Make the parts, each with those that it uses: no part knows one that is made after it."""
        flow, outage = self.flow, self.loops.outage
        dedicated = {role: self._dedicate(role) for role in _DEDICATED}
        upkeep = dedicated["upkeep"]
        config, settings = self.app.config, self.settings
        spec = ChildSpec(
            locator=settings.locator,
            database_url=config.broker.database_url,
            index=0,
            async_concurrency=settings.async_concurrency,
            max_tasks=settings.max_tasks_per_child,
            title=self.identity.worker_id,
            log_level=self.events.child_level,
            terms=LeaseTerms.of(config.recovery),
        )
        self.children = Children(spec, self.settings.processes, flow, self.events)
        self.subworkflow_builder = SubworkflowBuilder(dedicated["advance"], flow)
        self._resources.push_async_callback(self.subworkflow_builder.close)
        self.advancer = Advancer(dedicated["advance"], flow, self.subworkflow_builder)
        self.lost_claims = LostClaims(flow)
        self.starter = Starter(dedicated["start"], flow, outage, self.advancer, self.lost_claims)
        self.claimer = Claimer(dedicated["claim"], flow, self.starter, self.lost_claims, outage)
        self.finisher = Finisher(dedicated["finish"], flow, self.claimer, self.starter, self.advancer)
        self.beats = Beats(dedicated["beat"], flow, self.starter)
        outage.watch(flow.outbox.has_ended_before, self.beats.beat_now, flow.has_room)
        self.snapshots = Snapshots(upkeep, flow, self.claimer, self.started_at)
        self.unknown_tasks = UnknownTasks(upkeep, flow, self.claimer, self.advancer)
        self.orders = Orders(upkeep, flow, self.claimer, self.starter, self.lost_claims)
        self.looks = Looks(upkeep, flow, polls=self.behind_pooler)
        self.progress_writer = ProgressWriter(upkeep, flow)
        self.elections = elections(config.recovery, self.events, self.identity, upkeep, self._dedicate)
        flow.when_enqueued += self.claimer.notice, self.unknown_tasks.notice

    def _dedicate(self, role: str) -> DedicatedConnection:
        durable = self.app.config.broker.durable
        dedicated = DedicatedConnection(
            self.database, f"worker {role}", behind_pooler=self.behind_pooler, durable=durable
        )
        self._resources.push_async_callback(dedicated.close)
        self.dedicated.append(dedicated)
        return dedicated

    async def _listen(self) -> None:
        if self.behind_pooler:
            self.events.note("polling", reason="behind a pooler in transaction mode, which cannot LISTEN")
            return
        listener = Listener(
            partial(self.database.connect, "worker listen"),
            probe_interval_s=self.database.probe_interval_s,
            on_gap=self._check_everything,
        )
        for queue in self.claimer.queues:
            listener.add(f"task_queue_{queue}", partial(self._notified, queue))
        listener.add(ORDERS_CHANNEL, self._orders_changed)
        listener.add(LOOKS_CHANNEL, self._look_requested)
        listener.add(READY_CHANNEL, lambda _payload: self.subworkflow_builder.notice())
        self._resources.push_async_callback(listener.close)
        await listener.start()

    def _notified(self, queue: str, payload: str) -> None:
        """Wake loops by a payload: the id of a new task, or `capacity:` with the reason why there is room or work."""
        if payload.startswith("capacity:") and payload not in _TASKS_ARE_BACK:
            self.claimer.notice_room(queue)
            self.starter.retry_waiting()
        else:
            self.claimer.notice(None if payload in _TASKS_ARE_BACK else queue)
            self.unknown_tasks.notice()

    def _orders_changed(self, worker_id: str) -> None:
        """Read the orders, and beat: an operator has changed them, or tasks of this worker."""
        if worker_id == self.identity.worker_id:
            self.orders.wake.set()
            self.beats.beat_now()

    def _look_requested(self, worker_id: str) -> None:
        if worker_id == self.identity.worker_id:
            self.looks.wake.set()

    def _check_everything(self) -> None:
        """Wake every loop: notifications may have been missed."""
        self.flow.enqueued()
        self._orders_changed(self.identity.worker_id)
        self.looks.wake.set()
        self.subworkflow_builder.notice()

    async def _stop_claiming(self) -> None:
        """Stop claiming. A claim that is under way is completed first, unless the database hangs.

        If cancelled, it may be made all the same, and its tasks stay RUNNING without a child until they are released.
        """
        await self.loops.stop("orders")  # first: if not drained by an order, it would resume claiming
        self.claimer.draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CLAIM_S), self.claimer.claiming:
                await self.loops.stop("claim")
        await self.loops.stop("claim", "unknown_tasks")

    async def release_claims(self) -> None:
        """Release tasks that have not started, and those of a statement whose reply this worker did not wait for.

        Through the claimer's connection: a claim that was cancelled there has ended before this begins.
        """
        dedicated = self.claimer.dedicated
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT_S), self.claimer.claiming, self.starter.stepping:
                self.starter.take_all()
                for entry in self.unknown_tasks.take_all():
                    self.flow.tasks.drop(entry)
                returned, locked = await self.lost_claims.release(await dedicated.ready())
        except Exception as error:  # noqa: BLE001 - without a database leases expire, and sweeps find the rest
            dedicated.discard()
            self.events.warn("claims not released", error=one_line(error))
        else:
            if returned:
                self.events.note("claims released", claimed=len(returned))
            if locked:
                self.events.warn("claims not released", locked=len(locked))

    async def _store_last_snapshot(self) -> None:
        """Store a last snapshot: otherwise consoles show a worker that was stopped as late, and then as lost.

        And how far the tasks came that have just ended.
        """
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                self.snapshots.is_last = True
                await self.snapshots.step()
                await self.progress_writer.step()
        except Exception:  # noqa: BLE001 - without it the worker counts as late, then as lost
            self.snapshots.dedicated.discard()

    async def _drain(self, end: float) -> None:
        if len(self.flow.tasks):
            left_s = max(0.0, end - time.monotonic())
            self.events.note("draining", running=self.flow.tasks.count(Stage.RUNNING), grace=f"{left_s:.0f}s")
        await self._until(lambda: len(self.flow.tasks) <= self.flow.outbox.rejected, end)

    async def _interrupt(self, within_s: float) -> None:
        # The last first: the end of a stopped task lets the next one in its child begin, unless that was stopped
        # before.
        for entry in reversed(self.flow.tasks.at(Stage.RUNNING)):
            entry.interrupted = True
            self.flow.stop(entry)
        await self._until(lambda: self.flow.tasks.count(Stage.RUNNING) == 0, time.monotonic() + within_s)
        await self.children.close(0.0)
        for entry in self.flow.take_unbegun():
            self.flow.outbox.interrupted(entry, began=False)

    async def _until(self, done: Callable[[], bool], end: float, *, hurried: float = 0.0) -> None:
        """Wait until `done`, checked whenever an outcome was stored; `hurried`: the time after a second signal."""
        begin = time.monotonic()
        while not done():
            left = (min(end, begin + hurried) if self._hurry.is_set() else end) - time.monotonic()
            if left <= 0:
                return
            await self.flow.quiet.wait(min(left, 0.5))


@asynccontextmanager
async def run_worker(app: Horsies, settings: dict[str, Any]) -> AsyncIterator[Worker]:
    """Start a worker in the running loop, and stop it as SIGTERM would at the end of the block.

    MultipleValidationErrors for an application that `horsies check` refuses, before anything is claimed.
    """
    if errors := checked(app, live=False, located_in=next((module for module, _ in _variables(app)), None)).errors:
        raise MultipleValidationErrors(ValidationReport(tuple(errors)))
    settings = {"locator": settings.pop("locator", None) or locator_of(app), **settings}
    worker = Worker(app, WorkerSettings(**settings), Events())
    try:
        await worker.start()
    except BaseException:
        await worker.abort()
        raise
    try:
        yield worker
    finally:
        await worker.stop()


def locator_of(app: Horsies) -> str:
    """Return how a child finds this application: by the module that holds it, else by the file of the program itself.

    That file may well start a server when it is imported.
    """
    variables = _variables(app)
    for module, attribute in variables:
        if module.__name__ != "__main__":
            return f"{module.__name__}:{attribute}"
    for module, attribute in variables:
        if file := getattr(module, "__file__", None):
            return f"{Path(file).absolute()}:{attribute}"
    raise ConfigurationError(
        "no module holds this application in a variable, so child processes could not import it",
        code=ErrorCode.CLI_INVALID_ARGS,
        help_text='assign it at the top of a module, or say where it is: app.run_worker(locator="shop.tasks:app")',
    )


def _variables(app: Horsies) -> list[tuple[ModuleType, str]]:
    """Return the variables of modules that hold it."""
    return [
        (module, attribute)
        for module in list(sys.modules.values())
        for attribute, value in list(getattr(module, "__dict__", {}).items())
        if value is app
    ]
