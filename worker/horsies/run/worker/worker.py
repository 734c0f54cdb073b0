"""One worker: its parts wired together, started and stopped in the right order."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from horsies.domain.masking import mask
from horsies.hooks import WorkerStarted, WorkerStopped
from horsies.run.contract import ChildSpec, LeaseTerms
from horsies.run.loops import Loop, Supervisor
from horsies.run.metrics.probes import Phase, Probes
from horsies.run.pool.child_processes import Children
from horsies.run.scheduler import ScheduleLoop
from horsies.run.serve import wait_for_database
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.advancer import Advancer
from horsies.run.worker.beats import Beats
from horsies.run.worker.claim_rules import ClaimRules
from horsies.run.worker.claimer import Claimer
from horsies.run.worker.finisher import Finisher
from horsies.run.worker.hook_threads import Hooks
from horsies.run.worker.in_flight import Stage
from horsies.run.worker.looks import CHANNEL as LOOK_CHANNEL, Looks
from horsies.run.worker.lost_claims import LostClaims
from horsies.run.worker.orders import CHANNEL, Orders
from horsies.run.worker.progress_writer import ProgressWriter
from horsies.run.worker.reload import Reloader
from horsies.run.worker.snapshots import Snapshots
from horsies.run.worker.starter import Starter
from horsies.run.worker.subworkflow_builder import CHANNEL as READY_CHANNEL, SubworkflowBuilder
from horsies.run.worker.sweeper import elections
from horsies.run.worker.task_flow import TaskFlow
from horsies.run.worker.unknown_tasks import UnknownTasks
from horsies.store.dedicated_connection import DedicatedConnection, inspect_server
from horsies.store.listener import Listener
from horsies.store.pool import CONNECTION_ERRORS
from horsies.task.scheduled import schedules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.app import Horsies
    from horsies.run.events import Events

_TASKS_ARE_BACK = frozenset({"capacity:released", "capacity:interrupted", "capacity:swept"})
_DEDICATED = ("claim", "start", "finish", "advance", "beat", "upkeep")
_LAST_CLAIM_S = 1.0
_GIVE_BACK_S = 5.0
_GOODBYE_S = 2.0
_CLOSE_S = 0.1
_STORE_HURRIED_S = 3.0
_HOOKS_S = 2.0


class Worker:
    """Claims, runs and finishes tasks from start() to stop()."""

    def __init__(self, app: Horsies, settings: WorkerSettings, events: Events) -> None:
        self.app = app
        self.settings = settings
        self.events = events
        self.identity = Identity()
        self.claim_rules = ClaimRules.of(app, settings, self.identity)
        self.schedules = schedules_of(app, app.tasks) if settings.scheduler else []
        self.flow = TaskFlow(app, settings, self.claim_rules, self.identity, events)
        self.started_at = datetime.now(UTC)
        self._resources = AsyncExitStack()
        self._supervisor = Supervisor(app.config.resilience, events)
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
        self._supervisor.start(loops)
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

    @property
    def stuck(self) -> dict[str, float]:
        """The loops that are stuck, and for how many seconds."""
        return self._supervisor.stuck()

    @property
    def loops(self) -> Supervisor:
        """The supervisor, to be read only: which loops there are, when they succeeded, whether they hold back."""
        return self._supervisor

    async def abort(self) -> None:
        """Release the resources of a start() that failed half-way."""
        if self._hooks is not None:
            await self._hooks.close(0.0)
        await self._resources.aclose()

    def hurry(self) -> None:
        """The second signal: stop running tasks now."""
        self._hurry.set()
        self.flow.quiet.set()

    async def stop(self) -> None:
        """Stop claiming, release claims, drain while beats go on, interrupt the rest, store every outcome."""
        self.phase = Phase.STOPPING
        begin, times = time.monotonic(), self.settings.stop_times
        self._supervisor.hasten()
        await self._stop_claiming()
        await self.give_back()
        await self._drain(begin + times.drain_s)
        if self.flow.tasks.count(Stage.RUNNING):
            await self._interrupt(times.stop_task_s)
        self.flow.outbox.offer_rejected()
        await self._until(self._is_stored, begin + times.store_s, hurried=_STORE_HURRIED_S)
        self.lost = self.flow.outbox.give_up()
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
                await self._supervisor.stop_all()
                await self.give_back()
                await self._store_last_snapshot()
                await self.children.close(_GOODBYE_S)
        except TimeoutError:
            self.events.warn(
                "shutdown deadline exceeded", reason="the database does not answer, or a child does not end"
            )
            for dedicated in self.dedicated:
                dedicated.discard()
        with suppress(*CONNECTION_ERRORS):  # a connection that cannot be closed has been cut
            async with asyncio.timeout(max(end - time.monotonic(), _CLOSE_S)):
                await self._resources.aclose()

    def _wire(self) -> None:
        """Make the parts, each with those that it uses: no part knows one that is made after it."""
        config, events, who, flow, rules = self.app.config, self.events, self.identity, self.flow, self.claim_rules
        dedicated = {role: self._dedicate(role) for role in _DEDICATED}
        outage = self._supervisor.outage
        self.children = Children(self._child_spec(), self.settings.processes, flow, events)
        self.subworkflow_builder = SubworkflowBuilder(self.app, dedicated["advance"], events, flow)
        self._resources.push_async_callback(self.subworkflow_builder.close)
        self.advancer = Advancer(dedicated["advance"], events, flow, self.subworkflow_builder)
        self.lost_claims = LostClaims(rules, flow, events)
        starter = self.starter = Starter(
            rules, dedicated["start"], flow, events, outage, self.advancer, self.lost_claims
        )
        poll_s = config.resilience.notify_poll_interval_ms / 1000
        self.claimer = Claimer(rules, dedicated["claim"], flow, starter, self.lost_claims, poll_s=poll_s, outage=outage)
        self.finisher = Finisher(rules, dedicated["finish"], flow, events, self.claimer, starter, self.advancer)
        self.beats = Beats(config, who, dedicated["beat"], flow, starter, events)
        outage.watch(flow.outbox.has_ended_before, self.beats.beat_now, flow.has_room)
        self._wire_upkeep(dedicated["upkeep"])
        flow.when_enqueued += self.claimer.notice, self.unknown_tasks.notice

    def _wire_upkeep(self, dedicated: DedicatedConnection) -> None:
        """The loops that are not on the path of a task."""
        config, events, who, flow = self.app.config, self.events, self.identity, self.flow
        self.snapshots = Snapshots(
            config, self.settings, who, dedicated, flow, self.claimer, self.started_at, self.app.tasks
        )
        self.unknown_tasks = UnknownTasks(
            self.claim_rules,
            dedicated,
            self.claimer,
            flow,
            self.advancer,
            events,
            app_name=self.settings.locator,
            fail=(self.settings.unknown_tasks or config.unknown_tasks) == "fail",
        )
        self.orders = Orders(who, dedicated, self.claimer, self.starter, self.lost_claims, flow, events)
        self.looks = Looks(config, who, dedicated, flow, polls=self.behind_pooler)
        self.progress_writer = ProgressWriter(who, dedicated, flow)
        self.elections = elections(config.recovery, events, who, dedicated, self._dedicate)

    def _child_spec(self) -> ChildSpec:
        config, settings = self.app.config, self.settings
        return ChildSpec(
            locator=settings.locator,
            database_url=config.broker.database_url,
            index=0,
            async_concurrency=settings.async_concurrency,
            max_tasks=settings.max_tasks_per_child,
            title=self.identity.worker_id,
            log_level=self.events.child_level,
            terms=LeaseTerms.of(config.recovery),
        )

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
        listener.add(CHANNEL, self._orders_changed)
        listener.add(LOOK_CHANNEL, self._look_requested)
        listener.add(READY_CHANNEL, lambda _payload: self.subworkflow_builder.notice())
        self._resources.push_async_callback(listener.close)
        await listener.start()

    def _notified(self, queue: str, payload: str) -> None:
        """The payload is the id of a new task, or `capacity:` with the reason for which there is room or work."""
        if payload.startswith("capacity:") and payload not in _TASKS_ARE_BACK:
            self.claimer.notice_room(queue)
            self.starter.retry_waiting()
        else:
            self.claimer.notice(None if payload in _TASKS_ARE_BACK else queue)
            self.unknown_tasks.notice()

    def _orders_changed(self, worker_id: str) -> None:
        """An operator has changed the orders or the tasks of this worker."""
        if worker_id == self.identity.worker_id:
            self.orders.wake.set()
            self.beats.beat_now()

    def _look_requested(self, worker_id: str) -> None:
        """An operator wants to see what a task of this worker is doing."""
        if worker_id == self.identity.worker_id:
            self.looks.wake.set()

    def _check_everything(self) -> None:
        """Notifications may have been missed."""
        self.flow.enqueued()
        self._orders_changed(self.identity.worker_id)
        self.looks.wake.set()
        self.subworkflow_builder.notice()

    async def _stop_claiming(self) -> None:
        """A claim that is under way is completed first, unless the database hangs.

        If cancelled, it may be made all the same, and its tasks stay RUNNING without a child until they are released.
        """
        await self._supervisor.stop("orders")  # first: if not drained by an order, it would resume claiming
        self.claimer.draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CLAIM_S), self.claimer.claiming:
                await self._supervisor.stop("claim")
        await self._supervisor.stop("claim", "unknown_tasks")

    async def give_back(self) -> None:
        """Release tasks that have not started, and those of a statement whose reply this worker did not wait for.

        Through the claimer's connection: a claim that was cancelled there has ended before this begins.
        """
        dedicated = self.claimer.dedicated
        try:
            async with asyncio.timeout(_GIVE_BACK_S), self.claimer.claiming, self.starter.stepping:
                self.starter.take_all()
                for entry in self.unknown_tasks.take_all():
                    self.flow.tasks.drop(entry)
                returned, locked = await self.lost_claims.release(await dedicated.ready())
        except Exception as error:  # noqa: BLE001 - without a database leases expire, and sweeps find the rest
            dedicated.discard()
            words = f"{type(error).__name__}: {error}".split("\n", 1)[0]
            self.events.warn("claims not released", error=mask(words))
        else:
            if returned:
                self.events.note("claims released", claimed=len(returned))
            if locked:
                self.events.warn("claims not released", locked=len(locked))

    async def _store_last_snapshot(self) -> None:
        """A last snapshot: otherwise consoles show a worker that was stopped as late, and then as lost.

        And how far the tasks came that have just ended.
        """
        try:
            async with asyncio.timeout(_GOODBYE_S):
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

    def _is_stored(self) -> bool:
        return self.flow.outbox.pending + self.advancer.pending == 0

    async def _until(self, done: Callable[[], bool], end: float, *, hurried: float = 0.0) -> None:
        """Wait until `done`, checked whenever an outcome was stored; `hurried`: the time after a second signal."""
        begin = time.monotonic()
        while not done():
            left = (min(end, begin + hurried) if self._hurry.is_set() else end) - time.monotonic()
            if left <= 0:
                return
            await self.flow.quiet.wait(min(left, 0.5))
