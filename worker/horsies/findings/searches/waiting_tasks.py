"""Waiting tasks: no worker may start them, their deadline has passed, or their retry is late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.domain.quantities import counted, span
from horsies.findings import (
    MOST_IDS,
    NO_WORKER_SWEEPS,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    about_rows,
    remedies,
)
from horsies.store.statements import statement
from horsies.views.workers import FIRST_WORKER_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.findings import Remedy
    from horsies.findings.cluster import Cluster

UNKNOWN_NAME = FindingKind(
    "unknown name", 40, tasks="status:pending,retry", alert="{count} {name} unknown to all workers{on}"
)
QUEUE_WITHOUT_WORKER = FindingKind(
    "no worker",
    50,
    tasks="status:pending,retry has:due",
    alert="queue {name} has no worker, {count} due",
    alerts="{findings} queues have no worker, {count} due",
    alert_without_workers="no worker is alive, {count} due",
)
DEADLINE_PASSED = FindingKind(
    "deadline passed",
    180,
    state="EXPIRED",
    tasks="status:pending,retry has:deadline",
    swept="overdue",
    alert="{count} {name} past the deadline",
)
PAUSED_QUEUE = FindingKind(
    "paused queue",
    200,
    tasks="status:pending,retry has:due",
    alert="queue {name} is paused, {count} due",
    alerts="{findings} queues are paused, {count} due",
)
RETRY_OVERDUE = FindingKind("retry overdue", 210, state="RETRY", tasks="status:pending,retry tries:>1")

_LONG_PAUSE_S = 300.0
_VERY_LONG_PAUSE_S = 3_600.0
"""Seconds after which a pause is critical: deployments take minutes, and longer pauses are usually forgotten."""
_MUCH_DUE = 100
_VERY_MUCH_DUE = 500
"""Due tasks that make a pause critical after `_WITH_MANY_S`: all of them start at once when it ends."""
_WITH_MANY_S = 900.0
# A lost notification delays a retry by one poll, 5 s by default: a longer delay has another cause.
_RETRY_LATE_S = 60.0
_MAX_EXPIRING = 10_000


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    known = cluster.known()
    pairs = [(queue, name) for queue, names in known.items() for name in names]
    rows = await conn.fetch(
        statement(__name__, "diagnose_waiting"),
        list(cluster.paused),
        cluster.served(),
        list(known),
        [queue for queue, _ in pairs],
        [name for _, name in pairs],
        _RETRY_LATE_S,
        MOST_IDS,
    )
    expiring = await conn.fetch(statement(__name__, "diagnose_expiring"), _MAX_EXPIRING, MOST_IDS)
    capped = sum(row["count"] for row in expiring) >= _MAX_EXPIRING
    return [
        *(_FINDINGS[row["kind"]](row, cluster) for row in rows),
        *(_deadline_passed(row, cluster, capped=capped) for row in expiring),
    ]


def _paused(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    pause = cluster.paused[row["queue_name"]]
    by = f" by {pause.by}" if pause.by else ""
    paused_s = (cluster.now - pause.since).total_seconds()
    harm = _harm_of_pause(paused_s, row["count"])
    finding = _about_queue(
        PAUSED_QUEUE,
        row,
        # A recent pause is intended and needs no action.
        PredictedAction("nothing: an operator paused it", Severity.NOTE if harm < Severity.NEEDS_ACTION else harm),
        f"paused {span(paused_s)} ago{by}",
        remedies("queue", (row["queue_name"],), "resume"),
        f"Reason given: {pause.reason}" if pause.reason else "No reason was given.",
    )
    return replace(finding, alert_severity=harm)


def _harm_of_pause(paused_s: float, due: int) -> Severity:
    """Return the severity of a pause: a note at first, an alert when it lasts or many tasks are due, then critical."""
    if paused_s >= _VERY_LONG_PAUSE_S or (paused_s >= _WITH_MANY_S and due >= _VERY_MUCH_DUE):
        return Severity.NEEDS_ACTION
    if paused_s >= _LONG_PAUSE_S or due >= _MUCH_DUE:
        return Severity.HANDLED
    return Severity.NOTE


def _no_worker(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    queue = row["queue_name"]
    draining = sum(group.draining for group in cluster.serving(queue))
    waited_s = (cluster.now - row["since"]).total_seconds()
    is_starting = not cluster.had_workers and waited_s < FIRST_WORKER_WITHIN_S
    return _about_queue(
        QUEUE_WITHOUT_WORKER,
        row,
        PredictedAction("nothing yet: the first worker may be starting", Severity.NOTE)
        if is_starting
        else PredictedAction("nothing: waits for a worker", Severity.NEEDS_ACTION),
        f"its {counted(draining, 'worker drains', 'workers drain')}" if draining else "no living worker serves it",
        remedies("task", row["ids"], "cancel", "fail"),
        f"{counted(cluster.alive, 'worker')} alive; start one that serves {queue}, or resume one that drains.",
    )


def _about_queue(
    kind: FindingKind,
    row: Mapping[str, Any],
    prediction: PredictedAction,
    evidence: str,
    ways: tuple[Remedy, ...],
    why: str,
) -> Finding:
    queue = row["queue_name"]
    due = f"{'at least ' if row['more'] else ''}{counted(row['count'], 'task')} due"
    return Finding(
        kind=kind,
        target_kind="queue",
        name=queue,
        ids=(queue,),
        count=row["count"],
        since=row["since"],
        evidence=f"{evidence}, {due}",
        prediction=prediction,
        remedies=ways,
        why=(why,),
        at_least=row["more"],
        queue_name=queue,
    )


def _unknown_name(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    workers = sum(group.claiming for group in cluster.serving(row["queue_name"]))
    return about_rows(
        UNKNOWN_NAME,
        row,
        PredictedAction("nothing: waits for code", Severity.NEEDS_ACTION),
        "no running worker registers it",
        verbs=("cancel", "fail"),
        why=(
            f"{counted(workers, 'worker')} of queue {row['queue_name']} registered their names, but not this one:"
            " an unfinished deployment, or a misspelt name.",
        ),
        at_least=row["more"],
    )


def _retry_overdue(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    return about_rows(
        RETRY_OVERDUE,
        row,
        PredictedAction("claim it when a worker has room", Severity.NOTE),
        f"its retry was due {span((cluster.now - row['since']).total_seconds())} ago",
        verbs=("cancel", "fail"),
        why=(f"Queue {row['queue_name']} is served: its workers are busy, or a cap is reached.",),
        at_least=row["more"],
    )


def _deadline_passed(row: Mapping[str, Any], cluster: Cluster, *, capped: bool) -> Finding:
    return about_rows(
        DEADLINE_PASSED,
        row,
        PredictedAction("expire", Severity.HANDLED, cluster.sweep_in()) if cluster.alive else NO_WORKER_SWEEPS,
        f"its deadline passed {span((cluster.now - row['since']).total_seconds())} ago and it has not started",
        verbs=("expire", "cancel"),
        why=("No worker starts a task after its good_until.",),
        at_least=capped,
    )


_FINDINGS = {
    PAUSED_QUEUE.name: _paused,
    QUEUE_WITHOUT_WORKER.name: _no_worker,
    UNKNOWN_NAME.name: _unknown_name,
    RETRY_OVERDUE.name: _retry_overdue,
}
SEARCH = Search((UNKNOWN_NAME, QUEUE_WITHOUT_WORKER, DEADLINE_PASSED, PAUSED_QUEUE, RETRY_OVERDUE), _find)
