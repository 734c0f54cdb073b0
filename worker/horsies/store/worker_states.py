"""Snapshots of a worker over time, and samples of what waits in the queues."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Final

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

MOST_SAMPLED: Final = 50_000
"""Tasks that a sample counts at most, an equal share for each queue; as the views count them."""
STOPPED: Final = 0
"""The `processes` of the last snapshot of a worker that was stopped: it has none any more, and a live one has some. It
may drain by order, too, so `draining` does not say it."""


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """One row of horsies_worker_states, in the column order of its statement."""

    worker_id: str
    hostname: str
    pid: int
    processes: int
    max_claim_batch: int
    max_claim_per_worker: int
    cluster_wide_cap: int | None
    queues: list[str]
    queue_priorities: Mapping[str, int] | None
    queue_max_concurrency: Mapping[str, int] | None
    recovery_config: Mapping[str, Any]
    tasks_running: int
    tasks_claimed: int
    memory_usage_mb: float
    children_memory_mb: float
    memory_percent: float
    cpu_percent: float
    worker_started_at: datetime
    task_names: list[str] | None
    horsies_version: str
    draining: bool
    app_version: str | None
    container_memory_mb: float | None
    container_limit_mb: float | None
    largest_child_mb: float | None
    largest_child_pid: int | None
    child_limit_mb: float | None


async def write_snapshot(connection: asyncpg.Connection, snapshot: WorkerSnapshot) -> None:
    values = [json.dumps(value) if isinstance(value, dict) else value for value in astuple(snapshot)]
    await connection.execute(statement(__name__, "snapshot_worker"), *values)


async def sample_queues(connection: asyncpg.Connection) -> None:
    """Store how many tasks wait in each queue, if no worker has done so for this ten seconds."""
    await connection.execute(statement(__name__, "sample_queues"), MOST_SAMPLED)
