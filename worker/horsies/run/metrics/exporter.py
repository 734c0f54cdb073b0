"""`horsies metrics`: one process that shows a cluster to Prometheus. It needs no application and writes nothing."""

from __future__ import annotations

import asyncio
import platform
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from horsies import __version__
from horsies.run.events import one_line
from horsies.run.metrics.exposition import CONTENT_TYPE, OTHER, Metric, MetricsPage
from horsies.run.metrics.http import HttpServer, Reply
from horsies.run.metrics.worker_metrics import BUILD
from horsies.run.serve import Service
from horsies.store.connect import open_database, with_settings
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaKind, inspect_schema
from horsies.views import READER_SETTINGS, Liveness
from horsies.views.cluster import exported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.config.contexts import DatabaseChoice
    from horsies.run.events import Events
    from horsies.run.metrics.http import Address
    from horsies.store.connect import Connection, Database
    from horsies.views import ClusterStatus, QueueRow
    from horsies.views.cluster import Exported, ScheduleTotals


MOST_QUEUES: Final = 200
"""Tasks can be sent to queues of any name; those beyond this number are one queue, `other`."""

UP: Final = Metric("horsies_up", "gauge", "1 if the database answered the last read in time, else 0.")
SCHEMA: Final = Metric("horsies_schema_current", "gauge", "1 if the tables are as this release needs them, else 0.")
READ_S: Final = Metric("horsies_exporter_read_seconds", "gauge", "How long the last read of the database took.")
READ_AT: Final = Metric("horsies_exporter_read_time_seconds", "gauge", "When that was, as a Unix time.")
QUEUE_TASKS: Final = Metric(
    "horsies_queue_tasks",
    "gauge",
    "Tasks by queue and status: due (PENDING, may run now), later (delayed, or waits for a retry), claimed, running.",
    ("queue", "status"),
)
QUEUE_CUT: Final = Metric(
    "horsies_queue_tasks_at_least", "gauge", "1 if due and later were counted up to a bound only, else 0.", ("queue",)
)
QUEUE_AGE: Final = Metric(
    "horsies_queue_oldest_due_age_seconds", "gauge", "How long its oldest due task has waited; 0 for none.", ("queue",)
)
QUEUE_PAUSED: Final = Metric("horsies_queue_paused", "gauge", "1 while the queue is paused, else 0.", ("queue",))
QUEUE_WORKERS: Final = Metric(
    "horsies_queue_workers", "gauge", "Live workers that claim from the queue, without draining ones.", ("queue",)
)
QUEUE_CAP: Final = Metric(
    "horsies_queue_max_concurrency", "gauge", "How many of its tasks may run at once, if that is limited.", ("queue",)
)
WORKERS: Final = Metric(
    "horsies_workers",
    "gauge",
    "Workers of the last hour: alive, draining, late (12 s without a sign of life), lost (30 s), died (its tasks were"
    " recovered), stopped.",
    ("state",),
)
PROCESSES: Final = Metric("horsies_cluster_processes", "gauge", "Child processes of the workers that live.")
ENDED: Final = Metric(
    "horsies_tasks_ended_5m", "gauge", "Tasks that ended in the last 5 minutes, by status: completed, failed, other.",
    ("status",),
)  # fmt: skip
INTERRUPTED: Final = Metric(
    "horsies_tasks_interrupted", "gauge", "Tasks that were stopped at a shutdown and wait for an operator's decision."
)
WORKFLOWS: Final = Metric(
    "horsies_workflows", "gauge", "Workflows that have not ended: pending, running, paused.", ("status",)
)
SWEEP_AGE: Final = Metric(
    "horsies_sweep_age_seconds",
    "gauge",
    "How long ago a worker last swept: runs, claims, recovery, retention.",
    ("rule",),
)
SCHEDULES: Final = Metric("horsies_schedules", "gauge", "Schedules that are known; paused ones among them.")
SCHEDULES_PAUSED: Final = Metric("horsies_schedules_paused", "gauge", "Schedules that an operator has paused.")
SCHEDULES_OVERDUE: Final = Metric(
    "horsies_schedules_overdue", "gauge", "Schedules whose next run should have been sent over a minute ago."
)
SCHEDULE_LATE: Final = Metric("horsies_schedule_overdue_seconds", "gauge", "How late the most overdue one is.")
SCHEDULERS: Final = Metric("horsies_schedulers", "gauge", "Schedulers that are alive.")

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))


def cluster_page(read: Exported | None, *, up: bool, current: bool, took_s: float, at: float) -> MetricsPage:
    """Return the page; `read` is None if the database cannot be reached, or has no tables of ours."""
    page = MetricsPage()
    page.add(BUILD, 1, __version__, platform.python_version())
    page.add(UP, up)
    page.add(READ_S, took_s)
    page.add(READ_AT, at)
    if up:
        page.add(SCHEMA, current)
    if read is not None:
        _add_queues(page, read.status)
        _add_totals(page, read)
        if read.schedules is not None:
            _add_schedules(page, read.schedules)
    return page


def _add_queues(page: MetricsPage, status: ClusterStatus) -> None:
    shown = sorted(status.queues, key=lambda queue: (queue.workers == 0, queue.name))
    for queue in shown[:MOST_QUEUES]:
        for state, number in _depth(queue):
            page.add(QUEUE_TASKS, number, queue.name, state)
        age_s = 0.0 if queue.oldest_due_at is None else (status.now - queue.oldest_due_at).total_seconds()
        page.add(QUEUE_AGE, max(age_s, 0.0), queue.name)
        page.add(QUEUE_CUT, queue.due.at_least, queue.name)
        page.add(QUEUE_PAUSED, queue.paused_at is not None, queue.name)
        page.add(QUEUE_WORKERS, queue.claiming, queue.name)
        if queue.cap is not None:
            page.add(QUEUE_CAP, queue.cap, queue.name)
    if rest := shown[MOST_QUEUES:]:
        for states in zip(*map(_depth, rest), strict=True):
            page.add(QUEUE_TASKS, sum(number for _, number in states), OTHER, states[0][0])


def _depth(queue: QueueRow) -> Iterator[tuple[str, int]]:
    yield "due", queue.due.number
    yield "later", queue.later.number
    yield "claimed", queue.claimed
    yield "running", queue.running


def _add_totals(page: MetricsPage, read: Exported) -> None:
    workers = read.status.workers
    for state in Liveness:
        page.add(WORKERS, sum(worker.liveness is state for worker in workers), state.value)
    page.add(PROCESSES, sum(one.snapshot.processes for one in workers if one.lives and one.snapshot is not None))
    for name, count in (
        ("completed", read.status.completed),
        ("failed", read.status.failed),
        ("other", read.status.other),
    ):
        page.add(ENDED, count.number, name)
    page.add(INTERRUPTED, read.status.interrupted.number)
    for name in ("PENDING", "RUNNING", "PAUSED"):
        page.add(WORKFLOWS, read.workflows[name].number if name in read.workflows else 0, name.lower())
    for rule, age_s in sorted(read.sweeps.items()):
        page.add(SWEEP_AGE, age_s, rule)


def _add_schedules(page: MetricsPage, totals: ScheduleTotals) -> None:
    page.add(SCHEDULES, totals.schedules)
    page.add(SCHEDULES_PAUSED, totals.paused)
    page.add(SCHEDULES_OVERDUE, totals.overdue)
    page.add(SCHEDULE_LATE, totals.overdue_s)
    page.add(SCHEDULERS, totals.schedulers)


FRESH_S: Final = 5.0
"""Time for which a read is fresh: any number of scrapers together cost one read in this time."""
_WITHIN_S: Final = 5.0
"""The whole of a read, the connection included; Prometheus waits for 10 s by default."""
_SETTINGS: Final = (
    *READER_SETTINGS,
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "3s"),
    ("lock_timeout", "1s"),
)
_NOTHING_TO_READ: Final = frozenset({SchemaKind.EMPTY, SchemaKind.FOREIGN})


class Exporter(Service):
    """Serves from start() to stop(); a database that cannot be reached is `horsies_up 0`, and no error."""

    def __init__(self, choice: DatabaseChoice, address: Address, events: Events) -> None:
        self.events = events
        self._choice = choice
        self._resources = AsyncExitStack()
        self._server = HttpServer(
            address, {"/metrics": self._scrape, "/healthz": self._healthz, "/readyz": self._readyz}
        )
        self._database: Database
        self._connection: Connection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._page: MetricsPage
        self._problem: str | None = None
        self._fresh_until = 0.0

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        """Listen; ConfigurationError if that is not possible."""
        self._database = await self._resources.enter_async_context(open_database(self._choice))
        self._resources.push_async_callback(self._disconnect)
        await self._server.start()
        self._resources.push_async_callback(self._server.close)
        self.events.note("metrics", url=f"{self.url}/metrics", database=self._database.label)

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._resources.aclose()

    async def _scrape(self) -> Reply:
        await self._refresh()
        return Reply(200, self._page.encoded(), CONTENT_TYPE)

    async def _healthz(self) -> Reply:
        return Reply.of(200, "alive")

    async def _readyz(self) -> Reply:
        await self._refresh()
        return Reply.of(200, "ready") if self._problem is None else Reply.of(503, self._problem)

    async def _refresh(self) -> None:
        """Read, unless the last read is fresh, or one is under way: then wait for that. Clients that leave end none."""
        if self._reading is None and time.monotonic() >= self._fresh_until:
            self._reading = asyncio.create_task(self._read())
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            await self._read_once()
        finally:
            self._reading = None

    async def _read_once(self) -> None:
        began, read, current, problem = time.monotonic(), None, False, None
        try:
            async with asyncio.timeout(_WITHIN_S):
                read, current = await self._ask()
        except TimeoutError:
            problem = f"the database does not answer within {_WITHIN_S:g} s"
        except CONNECTION_ERRORS as error:
            problem = one_line(error)
        if problem is not None and self._connection is not None:
            self._connection.terminate()
            self._connection = None
        self._log(problem)
        now = time.monotonic()
        self._page = cluster_page(read, up=problem is None, current=current, took_s=now - began, at=time.time())
        self._fresh_until = now + FRESH_S

    async def _ask(self) -> tuple[Exported | None, bool]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect("metrics", settings=_SETTINGS)
        async with with_settings(self._connection):
            state = await inspect_schema(self._connection)
            current = state.kind in (SchemaKind.CURRENT, SchemaKind.READ_ONLY)
            return None if state.kind in _NOTHING_TO_READ else await exported(self._connection), current

    def _log(self, problem: str | None) -> None:
        """Log once that the database cannot be read, and once that it can be read again."""
        if problem is not None and self._problem is None:
            self.events.warn("database unavailable", reason=problem)
        elif problem is None and self._problem is not None:
            self.events.note("database available")
        self._problem = problem

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close(timeout=1)
