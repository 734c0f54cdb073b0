"""Losses and crashed tasks of dead workers, until an operator has acknowledged them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.findings import Finding, FindingKind, Remedy, Severity
from horsies.operations.formatting import counted
from horsies.store.statements import statement
from horsies.views.losses import Loss, worker_losses
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

    from horsies.operations.cluster import Cluster

MOST_CRASHED = 5_000
"""As in `crashed_tasks`."""
MOST_IDS = 500
ACKNOWLEDGE = "acknowledge"


@cache
def over_crashed(selecting: str) -> str:
    """A statement that selects from `crashed`, the tasks that have crashed."""
    return f"WITH crashed AS MATERIALIZED (\n{statement(__name__, 'crashed_tasks')})\n{selecting}"


async def crashed_findings(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    """Nothing if the database has no table for losses: upstream's, or one that is not upgraded."""
    if not cluster.keeps_losses:
        return []
    losses = await worker_losses(conn)
    dead = [loss for loss in losses.values() if loss.is_open and _is_dead(loss, cluster)]
    rows = await conn.fetch(over_crashed(statement(__name__, "diagnose_crashed")), MOST_IDS)
    capped = sum(row["count"] for row in rows) >= MOST_CRASHED
    return [*(_crashed(row, capped=capped) for row in rows), *map(_died, dead)]


async def unacknowledged(conn: asyncpg.Connection, ids: Sequence[str]) -> dict[str, str]:
    """Of these workers those with something to acknowledge, described in words."""
    found: dict[str, str] = {
        worker_id: f"{counted(tasks, 'task')} failed as it died"
        for worker_id, tasks in await conn.fetch(over_crashed(statement(__name__, "order_crashed")), ids)
    }
    losses = await worker_losses(conn)
    return found | {one: losses[one].words() for one in ids if one in losses and losses[one].is_open}


def _is_dead(loss: Loss, cluster: Cluster) -> bool:
    return not loss.came_back and (cluster.now - loss.died_at).total_seconds() > ALIVE_WITHIN_S


def _died(loss: Loss) -> Finding:
    return Finding(
        kind=FindingKind.WORKER_DIED,
        severity=Severity.NOTE,
        target_kind="worker",
        name=loss.worker_id,
        ids=loss.ids,
        count=loss.count,
        at_least=False,
        since=loss.died_at,
        evidence=loss.words(),
        system_will="nothing more: what it held was taken from it",
        in_seconds=None,
        may=(Remedy(ACKNOWLEDGE, "worker", (loss.worker_id,)),),
        why=(
            "It gave no sign of life any more, and had not said that it stops: it was killed, crashed, or was cut off.",
            "Returned tasks had not begun; what ran has failed as WORKER_CRASHED, or is tried again by its policy.",
        ),
        worker_id=loss.worker_id,
    )


def _crashed(row: Mapping[str, Any], *, capped: bool) -> Finding:
    ids, workers = tuple(row["ids"]), tuple(row["workers"] or ())
    on = f" on {name_of(workers[0])}{f' and {len(workers) - 1} more' if workers[1:] else ''}" if workers else ""
    remedies = [Remedy(verb, "task", ids) for verb in ("requeue", "rerun")]
    if workers:
        remedies.append(Remedy(ACKNOWLEDGE, "worker", workers))
    return Finding(
        kind=FindingKind.CRASHED,
        severity=Severity.NEEDS_YOU,
        target_kind="task",
        name=row["task_name"],
        ids=ids,
        count=row["count"],
        at_least=capped,
        since=row["since"],
        evidence=f"failed as WORKER_CRASHED{on}",
        system_will="nothing; needs your decision",
        in_seconds=None,
        may=tuple(remedies),
        why=(
            "Its worker, or the process that ran it, died; its policy does not retry WORKER_CRASHED, or no more.",
            "Requeueing runs user code again from the start: it may repeat what the first run already did.",
            "Acknowledging its worker leaves the task as it is, and says so in the audit trail.",
        ),
        queue_name=row["queue_name"],
    )
