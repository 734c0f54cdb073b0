"""The election of the worker that sweeps, and the report of the last sweep."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

RUNS, CLAIMS, UPKEEP = "runs", "claims", "recovery"


def sweep_name(rule: str, threshold_ms: int) -> str:
    """The duty of a rule that can be switched off, for the workers that have it on with this threshold."""
    return f"{rule} {threshold_ms}"


async def take_duty(connection: asyncpg.Connection, sweep: str, worker_id: str, interval_ms: int) -> float | None:
    """Try to become the worker that sweeps now. None: this one does; otherwise the seconds until it is due again.

    No lock is held between two statements, so that nothing has to be released: if a worker dies on duty, that run is
    missed, and the first worker to check after the interval has the next one. Works behind a pooler in transaction
    mode.
    """
    won, due_in_s = await connection.fetchrow(statement(__name__, "sweep_duty"), sweep, worker_id, interval_ms)
    return None if won else max(float(due_in_s or 0.0), 0.0)


async def write_report(
    connection: asyncpg.Connection, sweep: str, worker_id: str | None, report: Mapping[str, Any]
) -> None:
    """Store the report of this sweep, unless another worker has taken the duty since; None for a sweep by command.

    What it changed beside the tasks of lost workers, which horsies_worker_losses has, is kept for the history.
    """
    await connection.execute(statement(__name__, "sweep_report"), sweep, worker_id, json.dumps(report))
