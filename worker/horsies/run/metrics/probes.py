"""The HTTP side of a worker: /metrics for Prometheus, /healthz and /readyz for Kubernetes."""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from horsies.domain.masking import mask
from horsies.run.metrics import of_worker
from horsies.run.metrics.exposition import CONTENT_TYPE
from horsies.run.metrics.http import Address, HttpServer, Reply
from horsies.run.worker.in_flight import Stage
from horsies.store.pool import CONNECTION_ERRORS
from horsies.store.schema import SchemaError, require_current

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from datetime import datetime

    from horsies.app import Horsies
    from horsies.run.events import Events
    from horsies.run.loops import Supervisor
    from horsies.run.metrics.exposition import MetricsPage
    from horsies.run.settings import WorkerSettings
    from horsies.run.worker.claim_rules import ClaimRules
    from horsies.run.worker.claimer import Claimer
    from horsies.run.worker.snapshots import Snapshots
    from horsies.run.worker.task_flow import TaskFlow
    from horsies.store.dedicated_connection import DedicatedConnection

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

    app: Horsies
    claim_rules: ClaimRules
    settings: WorkerSettings
    events: Events
    phase: Phase
    started_at: datetime
    flow: TaskFlow
    claimer: Claimer
    snapshots: Snapshots
    dedicated: list[DedicatedConnection]

    @property
    def loops(self) -> Supervisor: ...

    @property
    def stuck(self) -> dict[str, float]: ...


class Probes:
    """Answers from before the worker waits for its database until it has stored its last outcome."""

    def __init__(self, worker: Probed) -> None:
        self._worker = worker
        self._metrics = of_worker.WorkerMetrics(worker.claim_rules.tasks)
        worker.events.observers.append(self._metrics)
        self._schema_problem: str | None = None
        self._schema_seen = time.monotonic()  # the start itself requires a current one
        port = worker.settings.metrics_port or 0
        address = Address(worker.settings.metrics_host, port, f"--metrics-port {port}")
        handlers = {"/metrics": self._scrape, "/healthz": self._healthz, "/readyz": self._readyz}
        self._server = HttpServer(address, handlers)

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self, resources: AsyncExitStack) -> None:
        """Listen; ConfigurationError if that is not possible. `resources` ends it, the last of all."""
        await self._server.start()
        resources.push_async_callback(self._server.close)
        self._worker.events.note("metrics", url=f"{self.url}/metrics")

    async def _scrape(self) -> Reply:
        page, worker = self._metrics.page(), self._worker
        page.add(of_worker.STARTED, worker.started_at.timestamp())
        page.add(of_worker.PROCESSES, worker.settings.processes)
        if worker.phase is not Phase.STARTING:
            _add_state(page, worker)
        return Reply(200, page.encoded(), CONTENT_TYPE)

    async def _healthz(self) -> Reply:
        return Reply.of(200, "alive")

    async def _readyz(self) -> Reply:
        reason = why_not_ready(self._worker) or await self._why_not_by_schema()
        return Reply.of(200, "ready") if reason is None else Reply.of(503, reason)

    async def _why_not_by_schema(self) -> str | None:
        """Another release may have upgraded it since the start. Without an answer the last one holds."""
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
    if worker.stuck:
        return ", ".join(f"the loop {name} is stuck for {since:.0f} s" for name, since in worker.stuck.items())
    return None


def _add_state(page: MetricsPage, worker: Probed) -> None:
    """Add the state of the worker at this moment."""
    page.add(of_worker.CHILDREN, len(worker.flow.children))
    for kind, is_async in (("sync", False), ("async", True)):
        page.add(of_worker.SLOTS, worker.flow.capacity(is_async=is_async), kind)
        page.add(of_worker.SLOTS_USED, worker.flow.tasks.occupied(is_async=is_async), kind)
    for stage in Stage:
        page.add(of_worker.IN_FLIGHT, worker.flow.tasks.count(stage), stage.name.lower())
    page.add(of_worker.REFUSED, worker.flow.outbox.rejected)
    page.add(of_worker.DRAINING, worker.claimer.draining)
    page.add(of_worker.MEMORY, worker.snapshots.memory_mb * 1024 * 1024)
    for loop in worker.loops.names:
        page.add(of_worker.STUCK, loop in worker.stuck, loop)
    for dedicated in worker.dedicated:
        page.add(of_worker.RECONNECTS, dedicated.reconnects, dedicated.use)
