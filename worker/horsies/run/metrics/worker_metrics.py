"""The metrics of one worker, and its answers to probes: /metrics, /healthz and /readyz.

They are kept in the worker's own process, so that restarts of its children lose nothing. A task costs it two
histograms' additions and one counter's; everything else is read at the scrape.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from horsies import __version__
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.masking import mask
from horsies.run.contract import TASK_INTERRUPTED, TASK_TIMEOUT
from horsies.run.events import Observer
from horsies.run.metrics.exposition import CONTENT_TYPE, OTHER, Histogram, Metric, MetricsPage, TaskSeries
from horsies.run.metrics.http import Address, HttpServer, Reply
from horsies.run.worker.in_flight import Stage
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaError, require_current

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AsyncExitStack
    from datetime import datetime

    from horsies.run.events import TaskEnd
    from horsies.run.loops import Supervisor
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.in_flight import InFlightTask
    from horsies.run.worker.snapshots import Snapshots
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection


MOST_SERIES: Final = 100
"""Pairs of a task and a queue that have series of their own, about 40 lines of a page each; all others are `other`."""

_WAIT_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_RUN_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_STEP_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SWEEP_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_LONGEST_WAIT_S: Final = 31_536_000.0
"""A year. A time that was written by hand, -infinity for example, would make the sum useless for good."""
_CHANGES: Final = frozenset({"requeued", "retried", "failed", "expired", "repairs"})

_KINDS: Final = {
    OperationalErrorCode.UNHANDLED_EXCEPTION.value: "exception",
    OperationalErrorCode.TASK_EXCEPTION.value: "exception",
    OperationalErrorCode.WORKER_CRASHED.value: "crashed",
    OperationalErrorCode.WORKER_SERIALIZATION_ERROR.value: "serialization",
    OperationalErrorCode.WORKER_RESOLUTION_ERROR.value: "unknown_task",
    TASK_TIMEOUT: "timeout",
    TASK_INTERRUPTED: "interrupted",
}

BUILD: Final = Metric("horsies_build_info", "gauge", "The release, and Python's; always 1.", ("version", "python"))
WAIT: Final = Metric(
    "horsies_task_wait_seconds",
    "histogram",
    "From when a task was due (sent, or its delay, retry or node had come) to the start of its code.",
    ("task", "queue"),
)
RUN: Final = Metric(
    "horsies_task_run_seconds",
    "histogram",
    "How long task code ran, of runs whose end was reported: a child that dies reports none.",
    ("task", "queue"),
)
RUNS: Final = Metric(
    "horsies_task_runs_total",
    "counter",
    "Runs whose end was stored. outcome: completed, failed, retried, or requeued by a stop of the worker; kind of a"
    " failure: error (returned by the task), exception, timeout, crashed, interrupted, serialization, unknown_task.",
    ("task", "queue", "outcome", "kind"),
)
EXPIRED: Final = Metric(
    "horsies_tasks_expired_total", "counter", "Claimed tasks whose deadline had passed.", ("task", "queue")
)
CLAIMS_LOST: Final = Metric(
    "horsies_claims_lost_total",
    "counter",
    "Tasks that were taken from this worker, by a sweep or an operator; found out at: start, beat, finish.",
    ("task", "queue", "at"),
)
CHILD_EXITS: Final = Metric(
    "horsies_child_exits_total", "counter", "Child processes that ended: crashed (under a task) or replaced.", ("how",)
)
CHILDREN: Final = Metric("horsies_worker_children", "gauge", "Child processes that are alive.")
PROCESSES: Final = Metric("horsies_worker_processes", "gauge", "Child processes that there should be.")
SLOTS: Final = Metric(
    "horsies_worker_slots", "gauge", "Places for tasks in living children; kind: sync or async.", ("kind",)
)
SLOTS_USED: Final = Metric(
    "horsies_worker_slots_used", "gauge", "Places in use, by tasks from their claim to their stored end.", ("kind",)
)
IN_FLIGHT: Final = Metric(
    "horsies_worker_tasks",
    "gauge",
    "Tasks in flight: claimed, running, finishing (the outcome waits), storing.",
    ("stage",),
)
REFUSED: Final = Metric(
    "horsies_worker_outcomes_refused", "gauge", "Outcomes that the database rejects; they are sent again."
)
DRAINING: Final = Metric("horsies_worker_draining", "gauge", "1 while the worker claims nothing more, else 0.")
STARTED: Final = Metric("horsies_worker_start_time_seconds", "gauge", "When the worker started, as a Unix time.")
MEMORY: Final = Metric("horsies_worker_memory_bytes", "gauge", "Resident memory of the worker and its children.")
CPU: Final = Metric("process_cpu_seconds_total", "counter", "CPU time of the worker, without its children.")
BEATS: Final = Metric("horsies_heartbeats_total", "counter", "Stored heartbeats, one per run and interval.")
STEPS: Final = Metric(
    "horsies_loop_duration_seconds",
    "histogram",
    "Steps of the worker's loops: claim, start, finish, advance, beat and the others.",
    ("loop",),
)
STEP_FAILURES: Final = Metric("horsies_loop_failures_total", "counter", "Steps that failed, to be repeated.", ("loop",))
STUCK: Final = Metric("horsies_loop_stuck", "gauge", "1 for a loop that has not succeeded for too long.", ("loop",))
RECONNECTS: Final = Metric(
    "horsies_database_reconnects_total", "counter", "Connections that were lost and replaced, by use.", ("use",)
)
SWEEPS: Final = Metric(
    "horsies_sweep_duration_seconds", "histogram", "Sweeps that this worker has run, by their rule.", ("rule",)
)
SWEPT: Final = Metric(
    "horsies_swept_total",
    "counter",
    "What sweeps of this worker changed: tasks requeued, retried, failed, expired; repairs of workflows; rows pruned.",
    ("change",),
)

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))


class WorkerMetrics(Observer):
    """The counters of one worker, which it makes of its events."""

    def __init__(self, task_names: Collection[str]) -> None:
        self._known = task_names
        self._tasks: dict[tuple[str, str], TaskSeries] = {}
        self._claimed_at: datetime | None = None
        self._claimed_s = 0.0
        # From the beginning, so that the first increment is one for rate(), too.
        self._counters: dict[tuple[Metric, tuple[str, ...]], int] = {
            (BEATS, ()): 0,
            (CHILD_EXITS, ("crashed",)): 0,
            (CHILD_EXITS, ("replaced",)): 0,
            **{(SWEPT, (change,)): 0 for change in sorted(_CHANGES | {"pruned"})},
        }
        self._steps: dict[str, Histogram] = {}
        self._sweeps: dict[str, Histogram] = {}

    def task_started(self, entry: InFlightTask) -> None:
        """Observe its wait: until its claim by the database's clock, from then on by this machine's."""
        task = entry.task
        entry.series = series = self._tasks.get((task.task_name, task.queue_name)) or self._new(entry)
        claimed_at = task.token.claimed_at
        if claimed_at != self._claimed_at:  # the tasks of one claim have the same
            self._claimed_at, self._claimed_s = claimed_at, claimed_at.timestamp()
        waited_s = self._claimed_s - task.due_at
        if task.position is None:
            waited_s += monotonic() - entry.since
        if not 0.0 <= waited_s <= _LONGEST_WAIT_S:
            waited_s = 0.0 if waited_s < 0.0 else _LONGEST_WAIT_S
        series.wait.observe(waited_s)

    def task_ended(self, end: TaskEnd) -> None:
        series = end.entry.series or self._new(end.entry)
        if end.ending == "completed":
            series.completed += 1
        else:
            key = end.ending, _KINDS.get(end.outcome.error_code or "", "error")
            series.failed[key] = series.failed.get(key, 0) + 1
        if end.duration_s is not None:
            series.run.observe(end.duration_s)

    def task_expired(self, entry: InFlightTask) -> None:
        self.count(EXPIRED, *self._labels(entry))

    def claim_lost(self, entry: InFlightTask, at: str) -> None:
        self.count(CLAIMS_LOST, *self._labels(entry), at)

    def count(self, metric: Metric, *labels: str, number: int = 1) -> None:
        key = metric, labels
        self._counters[key] = self._counters.get(key, 0) + number

    def child_exited(self, *, crashed: bool) -> None:
        self.count(CHILD_EXITS, "crashed" if crashed else "replaced")

    def beaten(self, runs: int) -> None:
        self.count(BEATS, number=runs)

    def loop_failed(self, loop: str) -> None:
        self.count(STEP_FAILURES, loop)

    def loop_stepped(self, loop: str, seconds: float) -> None:
        histogram = self._steps.get(loop)
        if histogram is None:
            histogram = self._steps[loop] = Histogram(_STEP_S)
        histogram.observe(seconds)

    def sweep_ended(self, sweep: str, seconds: float) -> None:
        """Observe its duration; its name has the threshold of its rule behind it: `runs 30000`."""
        self._sweeps.setdefault(sweep.partition(" ")[0], Histogram(_SWEEP_S)).observe(seconds)

    def swept(self, text: str, counts: Mapping[str, Any]) -> None:
        """Count what a sweep changed; retention counts by table, and says whether it is complete."""
        if text == "pruned":
            self.count(SWEPT, "pruned", number=sum(counts.values()) - counts["complete"])
        for change in _CHANGES & counts.keys():
            self.count(SWEPT, change, number=counts[change])

    def _new(self, entry: InFlightTask) -> TaskSeries:
        return self._tasks.setdefault(self._labels(entry), TaskSeries(_WAIT_S, _RUN_S))

    def _labels(self, entry: InFlightTask) -> tuple[str, str]:
        """Return the labels of its task; names that are not registered, any number of them, share `other`."""
        key = entry.task.task_name, entry.task.queue_name
        if key not in self._tasks:
            if key[0] not in self._known or len(self._tasks) >= MOST_SERIES:
                return OTHER, key[1]
            self._tasks[key] = TaskSeries(_WAIT_S, _RUN_S)
        return key

    def page(self) -> MetricsPage:
        page = MetricsPage()
        page.add(BUILD, 1, __version__, platform.python_version())
        for labels, series in self._tasks.items():
            page.add_histogram(WAIT, series.wait, *labels)
            page.add_histogram(RUN, series.run, *labels)
            page.add(RUNS, series.completed, *labels, "completed", "")
            for ending, number in series.failed.items():
                page.add(RUNS, number, *labels, *ending)
        for (metric, values), number in self._counters.items():
            page.add(metric, number, *values)
        for loop, histogram in self._steps.items():
            page.add_histogram(STEPS, histogram, loop)
        for rule, histogram in self._sweeps.items():
            page.add_histogram(SWEEPS, histogram, rule)
        page.add(CPU, sum(os.times()[:2]))
        return page


_SILENT_S: Final = 15.0
"""The snapshot loop writes every 5 s: two in a row are missing."""
_SCHEMA_EVERY_S: Final = 30.0
_SCHEMA_WITHIN_S: Final = 2.0


class Phase(StrEnum):
    STARTING = "starting: waiting for the database, then for the children"
    RUNNING = "running"
    STOPPING = "stopping"


class Probed(Protocol):
    """The worker, as far as it is shown here. Its parts are there as soon as it no longer starts."""

    phase: Phase
    started_at: datetime
    flow: TaskFlow
    claimer: Claimer
    snapshots: Snapshots
    dedicated: list[DedicatedConnection]
    loops: Supervisor


class Probes:
    """Answers from before the worker waits for its database until it has stored its last outcome."""

    def __init__(self, worker: Probed) -> None:
        self._worker = worker
        self._metrics = WorkerMetrics(worker.flow.rules.tasks)
        worker.flow.events.observers.append(self._metrics)
        self._schema_problem: str | None = None
        self._schema_seen = time.monotonic()  # the start itself requires a current one
        settings = worker.flow.settings
        port = settings.metrics_port or 0
        address = Address(settings.metrics_host, port, f"--metrics-port {port}")
        handlers = {"/metrics": self._scrape, "/healthz": self._healthz, "/readyz": self._readyz}
        self._server = HttpServer(address, handlers)

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self, resources: AsyncExitStack) -> None:
        """Listen; ConfigurationError if that is not possible. `resources` ends it, the last of all."""
        await self._server.start()
        resources.push_async_callback(self._server.close)
        self._worker.flow.events.note("metrics", url=f"{self.url}/metrics")

    async def _scrape(self) -> Reply:
        page, worker = self._metrics.page(), self._worker
        page.add(STARTED, worker.started_at.timestamp())
        page.add(PROCESSES, worker.flow.settings.processes)
        if worker.phase is not Phase.STARTING:
            _add_state(page, worker)
        return Reply(200, page.encoded(), CONTENT_TYPE)

    async def _healthz(self) -> Reply:
        return Reply.of(200, "alive")

    async def _readyz(self) -> Reply:
        reason = why_not_ready(self._worker) or await self._why_not_by_schema()
        return Reply.of(200, "ready") if reason is None else Reply.of(503, reason)

    async def _why_not_by_schema(self) -> str | None:
        """Check the schema now and then: another release may have upgraded it. Without an answer nothing changes."""
        if time.monotonic() - self._schema_seen > _SCHEMA_EVERY_S:
            self._schema_seen = time.monotonic()
            try:
                async with asyncio.timeout(_SCHEMA_WITHIN_S), self._worker.snapshots.dedicated.acquire() as connection:
                    await require_current(connection)
                self._schema_problem = None
            except SchemaError as error:
                self._schema_problem = f"the schema does not fit: {mask(error.message)}"
            except CONNECTION_ERRORS:
                pass
        return self._schema_problem


def why_not_ready(worker: Probed) -> str | None:
    """Return why this worker takes no tasks at the moment; None if it does."""
    if worker.phase is not Phase.RUNNING:
        return worker.phase.value
    if worker.claimer.draining:
        return "draining, by an operator's order"
    if not worker.flow.children:
        return "no child process is alive"
    if worker.loops.outage.holds_back:
        return "the database cannot be reached, or not be written"
    if (silent_s := time.monotonic() - worker.loops.last_success["snapshot"]) > _SILENT_S:
        return f"the database has not answered for {silent_s:.0f} s"
    if stuck := worker.loops.stuck():
        return ", ".join(f"the loop {name} is stuck for {since:.0f} s" for name, since in stuck.items())
    return None


def _add_state(page: MetricsPage, worker: Probed) -> None:
    page.add(CHILDREN, len(worker.flow.children))
    for kind, is_async in (("sync", False), ("async", True)):
        page.add(SLOTS, worker.flow.capacity(is_async=is_async), kind)
        page.add(SLOTS_USED, worker.flow.tasks.occupied(is_async=is_async), kind)
    for stage in Stage:
        page.add(IN_FLIGHT, worker.flow.tasks.count(stage), stage.name.lower())
    page.add(REFUSED, worker.flow.outbox.rejected)
    page.add(DRAINING, worker.claimer.draining)
    page.add(MEMORY, worker.snapshots.memory_mb * 1024 * 1024)
    stuck = worker.loops.stuck()
    for loop in worker.loops.names:
        page.add(STUCK, loop in stuck, loop)
    for dedicated in worker.dedicated:
        page.add(RECONNECTS, dedicated.reconnects, dedicated.use)
