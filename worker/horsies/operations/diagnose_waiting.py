"""Findings among waiting tasks: they need a decision, a worker that knows them or a resumed queue, or are overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.operations.findings import Finding, FindingKind, Remedy, Severity
from horsies.operations.formatting import counted, span
from horsies.operations.predictions import NOBODY_SWEEPS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

    from horsies.operations.cluster import Cluster

MOST_IDS = 500
_MOST_COUNTED = 10_000
# A lost notification costs one poll, 5 s by default: a later retry must have another cause.
_RETRY_LATE_S = 60.0


async def interrupted_findings(conn: asyncpg.Connection) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_interrupted"), _MOST_COUNTED, MOST_IDS)
    capped = sum(row["count"] for row in rows) >= _MOST_COUNTED
    return [_interrupted(row, capped=capped) for row in rows]


def _interrupted(row: Mapping[str, Any], *, capped: bool) -> Finding:
    hosts = sorted(host for host in row["hosts"] if host)
    where = f" on {', '.join(hosts[:3])}{' and others' if hosts[3:] else ''}" if hosts else ""
    return Finding(
        kind=FindingKind.INTERRUPTED,
        severity=Severity.NEEDS_YOU,
        target_kind="task",
        name=row["task_name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        at_least=capped,
        since=row["since"],
        evidence=f"stopped past its grace{where}",
        system_will="nothing; needs your decision",
        in_seconds=None,
        may=_task_verbs(row["ids"], "requeue", "fail", "rerun"),
        why=(
            "A worker was shut down while it ran, and it does not say requeue_on_interrupt.",
            "Requeueing runs user code again from the start: it may repeat what the first run already did.",
        ),
        queue_name=row["queue_name"],
    )


async def expired_findings(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_expiring"), _MOST_COUNTED, MOST_IDS)
    capped = sum(row["count"] for row in rows) >= _MOST_COUNTED
    return [_expired(row, cluster, capped=capped) for row in rows]


def _expired(row: Mapping[str, Any], cluster: Cluster, *, capped: bool) -> Finding:
    late = span((cluster.now - row["since"]).total_seconds())
    return Finding(
        kind=FindingKind.PAST_DEADLINE,
        severity=Severity.HANDLED if cluster.alive else Severity.NEEDS_YOU,
        target_kind="task",
        name=row["task_name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        at_least=capped,
        since=row["since"],
        evidence=f"good_until passed {late} ago and it has not started",
        system_will="expire" if cluster.alive else NOBODY_SWEEPS,
        in_seconds=cluster.sweep_in(),
        may=_task_verbs(row["ids"], "expire", "cancel"),
        why=("No worker starts a task after its good_until.",),
        queue_name=row["queue_name"],
    )


async def waiting_findings(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
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
    return [_WAITING[FindingKind(row["kind"])](row, cluster) for row in rows]


def _paused(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    queue = row["queue_name"]
    pause = cluster.paused[queue]
    by = f" by {pause.by}" if pause.by else ""
    since = span((cluster.now - pause.since).total_seconds())
    return _of_queue(
        row,
        FindingKind.PAUSED_QUEUE,
        Severity.NOTE,
        evidence=f"paused {since} ago{by}, {_due(row)}",
        system_will="nothing: an operator paused it",
        may=(Remedy("resume", "queue", (queue,)),),
        why=(f"Reason given: {pause.reason}" if pause.reason else "No reason was given.",),
    )


def _no_worker(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    queue = row["queue_name"]
    draining = sum(group.draining for group in cluster.serving(queue))
    evidence = f"all of its {counted(draining, 'worker')} drain" if draining else "no living worker serves it"
    return _of_queue(
        row,
        FindingKind.QUEUE_WITHOUT_WORKER,
        Severity.NEEDS_YOU,
        evidence=f"{evidence}, {_due(row)}",
        system_will="nothing: waits for a worker",
        may=_task_verbs(row["ids"], "cancel", "fail"),
        why=(f"{counted(cluster.alive, 'worker')} alive; start one that serves {queue}, or resume one that drains.",),
    )


def _of_queue(
    row: Mapping[str, Any],
    kind: FindingKind,
    severity: Severity,
    *,
    evidence: str,
    system_will: str,
    may: tuple[Remedy, ...],
    why: tuple[str, ...],
) -> Finding:
    queue = row["queue_name"]
    return Finding(
        kind=kind,
        severity=severity,
        target_kind="queue",
        name=queue,
        ids=(queue,),
        count=row["count"],
        at_least=row["more"],
        since=row["since"],
        evidence=evidence,
        system_will=system_will,
        in_seconds=None,
        may=may,
        why=why,
        queue_name=queue,
    )


def _unknown_name(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    workers = sum(group.claiming for group in cluster.serving(row["queue_name"]))
    return _of_name(
        row,
        Severity.NEEDS_YOU,
        evidence="no running worker registers it",
        system_will="nothing: waits for code",
        may=_task_verbs(row["ids"], "cancel", "fail"),
        why=(
            f"{counted(workers, 'worker')} of queue {row['queue_name']} told the names they register; this is none of"
            " them: a deploy that is not finished, or a name misspelt.",
        ),
    )


def _retry_overdue(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    late = span((cluster.now - row["since"]).total_seconds())
    return _of_name(
        row,
        Severity.NOTE,
        evidence=f"its retry was due {late} ago",
        system_will="claim it with the next free place",
        may=_task_verbs(row["ids"], "cancel", "fail"),
        why=(f"Queue {row['queue_name']} is served: its workers are busy, or a cap is reached.",),
    )


def _of_name(
    row: Mapping[str, Any],
    severity: Severity,
    *,
    evidence: str,
    system_will: str,
    may: tuple[Remedy, ...],
    why: tuple[str, ...],
) -> Finding:
    return Finding(
        kind=FindingKind(row["kind"]),
        severity=severity,
        target_kind="task",
        name=row["task_name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        at_least=row["more"],
        since=row["since"],
        evidence=evidence,
        system_will=system_will,
        in_seconds=None,
        may=may,
        why=why,
        queue_name=row["queue_name"],
    )


_WAITING = {
    FindingKind.PAUSED_QUEUE: _paused,
    FindingKind.QUEUE_WITHOUT_WORKER: _no_worker,
    FindingKind.UNKNOWN_NAME: _unknown_name,
    FindingKind.RETRY_OVERDUE: _retry_overdue,
}


def _due(row: Mapping[str, Any]) -> str:
    more = "at least " if row["more"] else ""
    return f"{more}{counted(row['count'], 'task')} due"


def _task_verbs(ids: Iterable[str], *verbs: str) -> tuple[Remedy, ...]:
    targets = tuple(ids)
    return tuple(Remedy(verb, "task", targets) for verb in verbs)
