"""Tasks that ended with their worker, at a crash or at a shutdown, and dead workers, until an operator acts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.codes import CHILD_ENDED
from horsies.domain.quantities import counted
from horsies.findings import (
    MOST_IDS,
    NEEDS_DECISION,
    RUNS_AGAIN,
    Finding,
    FindingKind,
    PredictedAction,
    Remedy,
    Search,
    Severity,
    about_rows,
    remedies,
)
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.store.statements import statement
from horsies.views.workers import Loss, place_of, worker_losses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

    from horsies.findings.cluster import Cluster

INTERRUPTED = FindingKind("interrupted", 10, state="INTERRUPTED", tasks="status:interrupted")
CRASHED = FindingKind(
    "crashed",
    20,
    state="FAILED",
    tasks="status:failed error:WORKER_CRASHED",
    by_id=True,
    alert="{count} {name} crashed, unacknowledged{on}",
)
WORKER_DIED = FindingKind(
    "worker died",
    80,
    by_id=True,
    workers="status:died",
    alert="{name} died with {tasks}",
    alerts="{findings} workers died with {tasks}",
    alert_severity=Severity.HANDLED,
)
MOST_CRASHED = 5_000
"""The condition of the fragment `crashed`."""
ACKNOWLEDGE = "acknowledge"
_MAX_END = 120
_MAX_INTERRUPTED = 10_000
_MAX_NAMES: Final = 10


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_interrupted"), _MAX_INTERRUPTED, MOST_IDS)
    capped = sum(row["count"] for row in rows) >= _MAX_INTERRUPTED
    found = [_interrupted(row, capped=capped) for row in rows]
    if "horsies_worker_losses" not in cluster.tables:
        return found
    lost = [loss for loss in (await worker_losses(conn)).values() if loss.is_open and not loss.came_back]
    dead = [loss for loss in lost if (cluster.now - loss.died_at).total_seconds() > ALIVE_WITHIN_S]
    rows = await conn.fetch(statement(__name__, "diagnose_crashed"), MOST_IDS)
    capped = sum(row["count"] for row in rows) >= MOST_CRASHED
    return [*found, *(_crashed(row, capped=capped) for row in rows), *map(_died, dead)]


def _interrupted(row: Mapping[str, Any], *, capped: bool) -> Finding:
    hosts = sorted(host for host in row["hosts"] if host)
    on = f" on {', '.join(hosts[:3])}{' and others' if hosts[3:] else ''}" if hosts else ""
    return about_rows(
        INTERRUPTED,
        row,
        NEEDS_DECISION,
        f"stopped past its grace{on}",
        verbs=("requeue", "fail", "rerun"),
        why=("A worker was shut down while it ran, and its requeue_on_interrupt is off.", RUNS_AGAIN),
        at_least=capped,
    )


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """A worker's unacknowledged losses and crashed tasks, as they were read."""

    loss: Loss | None
    crashed: Mapping[str, tuple[str, ...]]
    """The ids of the tasks by their names, the most frequent name first."""

    @property
    def task_ids(self) -> list[str]:
        return [task_id for ids in self.crashed.values() for task_id in ids]

    @property
    def words(self) -> str:
        died = [] if self.loss is None else [self.loss.words()]
        return "; ".join([*died, *([self._crashed_words] if self.crashed else [])])

    @property
    def _crashed_words(self) -> str:
        names = [(len(ids), name) for name, ids in self.crashed.items()]
        said = ", ".join(f"{tasks:,} {name}" for tasks, name in names[:_MAX_NAMES])
        more = sum(tasks for tasks, _ in names[_MAX_NAMES:])
        others = f" and {counted(more, 'other task')}" if more else ""
        return f"{counted(len(self.task_ids), 'task')} failed as it died: {said}{others}"


async def unacknowledged(
    conn: asyncpg.Connection, ids: Sequence[str], task_name: str | None
) -> dict[str, Unacknowledged]:
    """Return those of these workers that have something to acknowledge; with a name, only its crashed tasks count."""
    rows = await conn.fetch(statement(__name__, "order_crashed"), ids, task_name)
    losses = await worker_losses(conn) if task_name is None else {}
    died = {one: losses[one] for one in ids if one in losses and losses[one].is_open}
    crashed = {
        worker_id: {row["task_name"]: tuple(row["ids"]) for row in same}
        for worker_id, same in groupby(rows, itemgetter("worker_id"))
    }
    return {one: Unacknowledged(died.get(one), crashed.get(one, {})) for one in {**died, **crashed}}


def _died(loss: Loss) -> Finding:
    return Finding(
        kind=WORKER_DIED,
        target_kind="worker",
        name=loss.worker_id,
        ids=loss.ids,
        count=loss.count,
        since=loss.died_at,
        evidence=loss.words(),
        prediction=PredictedAction("nothing more: its tasks were recovered", Severity.NOTE),
        remedies=remedies("worker", (loss.worker_id,), ACKNOWLEDGE),
        why=(
            "It fell silent without a clean stop: it was killed, crashed, or lost its connection.",
            "Returned tasks had not begun; running ones failed as WORKER_CRASHED, or are retried by their policy.",
        ),
        worker_id=loss.worker_id,
    )


def _crashed(row: Mapping[str, Any], *, capped: bool) -> Finding:
    workers = tuple(row["workers"] or ())
    finding = about_rows(
        CRASHED,
        row,
        NEEDS_DECISION,
        f"failed as WORKER_CRASHED{_where(row, workers)}",
        verbs=("requeue", "rerun"),
        why=(
            "Its worker, or the process that ran it, died; its policy has no (further) retry for WORKER_CRASHED.",
            RUNS_AGAIN,
            "Acknowledging leaves the tasks as they are, takes those of this name off the report, and says so in the"
            " audit log; other tasks that crashed with the worker stay.",
        ),
        at_least=capped,
    )
    if not workers:
        return finding
    acknowledge = Remedy(ACKNOWLEDGE, "worker", workers, {"task": finding.name})
    return replace(finding, remedies=(*finding.remedies, acknowledge))


def _where(row: Mapping[str, Any], workers: Sequence[str]) -> str:
    """Return the worker; if only its child died, also the newest child and how it ended."""
    reason = row["reason"] or ""
    child = reason.startswith(CHILD_ENDED)
    on = f" on {place_of(row['worker_id'], None, row['worker_pid'] if child else None)}" if row["worker_id"] else ""
    more = f" and {len(workers) - 1} more" if workers[1:] else ""
    how = f", {shorten(reason.removeprefix(CHILD_ENDED), _MAX_END, placeholder='…')}" if child else ""
    return f"{on}{more}{how}"


SEARCH = Search((INTERRUPTED, CRASHED, WORKER_DIED), _find)
