"""Snapshots of a worker over time, samples of the queues, and the election of the worker that sweeps."""

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


RUNS, CLAIMS, UPKEEP = "runs", "claims", "recovery"


def sweep_name(rule: str, threshold_ms: int) -> str:
    """Return the name of a rule that can be switched off, for the workers that have it on with this threshold."""
    return f"{rule} {threshold_ms}"


async def elect(connection: asyncpg.Connection, sweep: str, worker_id: str, interval_ms: int) -> float | None:
    """Try to become the worker that sweeps now; return None if it is elected, else the seconds until the next try.

    No lock is held between two statements, so that nothing has to be released: if the elected worker dies, that run is
    missed, and the first worker to check after the interval has the next one. Works behind a pooler in transaction
    mode.
    """
    won, due_in_s = await connection.fetchrow(statement(__name__, "sweep_election"), sweep, worker_id, interval_ms)
    return None if won else max(float(due_in_s or 0.0), 0.0)


async def write_report(
    connection: asyncpg.Connection, sweep: str, worker_id: str | None, report: Mapping[str, Any]
) -> None:
    """Store the report of this sweep, unless another worker has been elected since; None for a sweep by command.

    What it changed beside the tasks of lost workers, which horsies_worker_losses has, is kept for the history.
    """
    await connection.execute(statement(__name__, "sweep_report"), sweep, worker_id, json.dumps(report))
