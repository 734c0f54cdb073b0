"""Findings among claimed and running tasks: by the conditions of the sweep, in words."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.findings import Finding, FindingKind, Remedy
from horsies.operations.formatting import clock, span
from horsies.operations.predictions import Holder, InFlightProblem, fate_of, fate_of_holdings
from horsies.store.statements import statement
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.operations.cluster import Cluster
    from horsies.operations.predictions import PredictedAction

MOST_ROWS = 500

_RUNS_AGAIN = "Requeueing runs user code again from the start: it may repeat what the first run already did."
_NEVER_BEGAN = "User code has not begun, so nothing can happen twice."

_alike = attrgetter("kind", "task_name", "queue_name", "worker_id")


async def held_findings(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    settings = cluster.settings
    records = await conn.fetch(
        statement(__name__, "diagnose_in_flight"),
        settings.claimed_stale_threshold_ms,
        settings.running_stale_threshold_ms,
        settings.finalizing_stale_threshold_ms,
        MOST_ROWS,
    )
    holders = await conn.fetch(statement(__name__, "diagnose_holders"), ALIVE_WITHIN_S, MOST_ROWS)
    gone = {holder.worker_id: holder for holder in (Holder(*row) for row in holders)}
    troubles = sorted((InFlightProblem(*record) for record in records), key=lambda row: tuple(map(str, _alike(row))))
    findings: list[Finding] = []
    for _, rows in groupby(troubles, _alike):
        findings += _told(list(rows), cluster, gone)
    return findings + [_gone(holder, cluster) for holder in gone.values()]


def _told(rows: list[InFlightProblem], cluster: Cluster, gone: Mapping[str, Holder]) -> Iterable[Finding]:
    """One line for each predicted action. If these differ and not all rows were read, the counts are lower bounds."""
    by_fate: dict[PredictedAction, list[InFlightProblem]] = {}
    for row in rows:
        by_fate.setdefault(fate_of(row, cluster), []).append(row)
    alike = rows[0].alike
    holder = gone.get(rows[0].worker_id or "")
    for fate, same in by_fate.items():
        count = alike if len(by_fate) == 1 else len(same)
        at_least = len(rows) < alike and len(by_fate) > 1
        yield _finding(same, fate, cluster, holder, count, at_least=at_least)


def _finding(
    rows: list[InFlightProblem],
    fate: PredictedAction,
    cluster: Cluster,
    holder: Holder | None,
    count: int,
    *,
    at_least: bool,
) -> Finding:
    first = min(rows, key=_since)
    ids = tuple(row.task_id for row in rows)
    return Finding(
        kind=FindingKind(first.kind),
        severity=fate.severity,
        target_kind="task",
        name=first.task_name,
        ids=ids,
        count=count,
        at_least=at_least,
        since=_since(first),
        evidence=_evidence(first, cluster) + (", its worker is lost" if holder else ""),
        system_will=fate.system_will,
        in_seconds=fate.in_seconds,
        may=_may(first, ids, holder),
        why=tuple(_why(first, fate, holder)),
        queue_name=first.queue_name,
        worker_id=first.worker_id,
    )


def _since(row: InFlightProblem) -> datetime:
    """Since when it is silent; for an outcome, since its code has ended; for a lease, since it has expired."""
    if row.kind == FindingKind.FINALIZING and row.finalizing_at:
        return row.finalizing_at
    if row.kind == FindingKind.LEASE_RAN_OUT and row.claim_expires_at:
        return row.claim_expires_at
    return row.last_sign


def _evidence(row: InFlightProblem, cluster: Cluster) -> str:
    settings, silent = cluster.settings, span((cluster.now - _since(row)).total_seconds())
    if row.kind == FindingKind.FINALIZING:
        return f"user code ended {silent} ago, its outcome is not stored"
    if row.kind == FindingKind.LEASE_RAN_OUT:
        return f"its lease ran out {silent} ago"
    if row.kind == FindingKind.STALE_CLAIM:
        return f"no claimer beat for {silent}, threshold {span(settings.claimed_stale_threshold_ms / 1000)}"
    return f"no runner beat for {silent}, threshold {span(settings.running_stale_threshold_ms / 1000)}"


def _may(row: InFlightProblem, ids: tuple[str, ...], holder: Holder | None) -> tuple[Remedy, ...]:
    verbs = ("requeue", "fail") if _began(row) else ("release", "cancel")
    remedies = [Remedy(verb, "task", ids) for verb in verbs]
    if holder is not None:
        remedies.append(Remedy("recover", "worker", (holder.worker_id,)))
    return tuple(remedies)


def _began(row: InFlightProblem) -> bool:
    return row.kind in (FindingKind.STALE_RUN, FindingKind.FINALIZING)


def _why(row: InFlightProblem, fate: PredictedAction, holder: Holder | None) -> Iterable[str]:
    what = "started" if _began(row) else "claimed"
    beat = f"beat last at {clock(row.last_beat)}" if row.last_beat else "has never beaten since"
    worker = name_of(row.worker_id) if row.worker_id else "a worker without a name"
    yield f"It was {what} at {clock(row.began_at)} by {worker} and {beat}."
    if holder is not None:
        yield _held_by(holder)
    if fate.reason:
        yield fate.reason
    yield _RUNS_AGAIN if _began(row) else _NEVER_BEGAN


def _held_by(holder: Holder) -> str:
    told = f"wrote its last snapshot at {clock(holder.snapshot_at)}" if holder.snapshot_at else "has no snapshot"
    return f"{name_of(holder.worker_id)} {told}. It holds {_in_flight(holder)}."


def _in_flight(holder: Holder) -> str:
    return f"{holder.running} running and {holder.claimed} claimed"


def _gone(holder: Holder, cluster: Cluster) -> Finding:
    fate = fate_of_holdings(holder, cluster)
    silent = span((cluster.now - holder.last_sign).total_seconds())
    return Finding(
        kind=FindingKind.WORKER_GONE,
        severity=fate.severity,
        target_kind="worker",
        name=holder.worker_id,
        ids=(holder.worker_id,),
        count=holder.running + holder.claimed,
        at_least=False,
        since=holder.last_sign,
        evidence=f"no sign of life for {silent}, holds {_in_flight(holder)}",
        system_will=fate.system_will,
        in_seconds=fate.in_seconds,
        may=(Remedy("recover", "worker", (holder.worker_id,)),),
        why=(_held_by(holder), _RUNS_AGAIN if holder.running else _NEVER_BEGAN),
        worker_id=holder.worker_id,
    )
