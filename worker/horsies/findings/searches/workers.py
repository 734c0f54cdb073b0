"""Live workers: memory near its limit, and rules of the sweep that they have enabled but none runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from horsies.domain.quantities import clock, counted, size, span
from horsies.findings import MOST_IDS, Finding, FindingKind, PredictedAction, Search, Severity
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.store.statements import statement
from horsies.store.worker_states import CLAIMS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.findings.cluster import Cluster, Rule

RULE_NOT_APPLIED = FindingKind("rule not applied", 220, tasks="status:claimed,running", alert="no worker sweeps {name}")
NEAR_ITS_LIMIT = FindingKind(
    "memory near its limit",
    85,
    alert="{name} is near its memory limit",
    alerts="{findings} workers are near their memory limits",
)

NEAR: Final = 0.9
"""The share of a limit from which usage is reported."""
_KILLED = PredictedAction("at the limit of a container the kernel kills one of its processes", Severity.HANDLED)
_REFUSED = PredictedAction("at its limit the child gets no more memory", Severity.HANDLED)
_DOES = {RUNS: "runs of dead workers stay RUNNING", CLAIMS: "claims of dead workers wait for their lease"}


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_memory"), ALIVE_WITHIN_S, NEAR, MOST_IDS)
    return [*map(_near, rows), *(_not_applied(rule, cluster.now) for rule in cluster.unswept)]


def _near(row: Mapping[str, Any]) -> Finding:
    return Finding(
        kind=NEAR_ITS_LIMIT,
        target_kind="worker",
        name=row["worker_id"],
        ids=(row["worker_id"],),
        since=row["since"],
        evidence=f"pid {row['pid']} on {row['hostname']}: {'; '.join(_uses(row))}",
        prediction=_KILLED if row["container_is_near"] else _REFUSED,
        why=tuple(_why(row)),
    )


def _uses(row: Mapping[str, Any]) -> Iterator[str]:
    child = "" if row["child_pid"] is None else f"child {row['child_pid']}"
    if row["container_is_near"]:
        used, limit = row["used_mb"], row["limit_mb"]
        yield f"its container uses {_megabytes(used)} of {_megabytes(limit)} ({used / limit:.0%})"
        if child and not row["child_is_near"]:
            yield f"its largest child is {child}"
    if row["child_is_near"]:
        used, limit = row["child_mb"], row["child_may_mb"]
        yield f"{child} uses {_megabytes(used)} of its limit of {_megabytes(limit)} ({used / limit:.0%})"


def _why(row: Mapping[str, Any]) -> Iterator[str]:
    if row["container_is_near"]:
        yield "The tasks of a killed child count as crashed; those of a killed worker, once a sweep finds it dead."
    else:
        yield "Further allocations raise MemoryError in the task that makes them."
    yield "`--max-tasks-per-child` replaces children that leak; fewer `--processes` need less memory."


def _megabytes(amount: float) -> str:
    return size(round(amount * 1_048_576))


def _not_applied(rule: Rule, now: datetime) -> Finding:
    last = "never" if rule.last is None else f"last {span((now - rule.last).total_seconds())} ago"
    wanted = f"{counted(rule.workers, 'living worker')} every {span(rule.interval_ms / 1000)}"
    stays = _DOES.get(rule.rule, "late tasks and broken workflows are not repaired")
    return Finding(
        kind=RULE_NOT_APPLIED,
        target_kind="worker",
        name=rule.rule if rule.threshold_ms is None else f"{rule.rule} silent for {span(rule.threshold_ms / 1000)}",
        since=rule.last or rule.since,
        evidence=f"enabled by {wanted}, swept {last}",
        prediction=PredictedAction(f"nothing: {stays}", Severity.NEEDS_ACTION),
        why=tuple(_why_not_applied(rule)),
    )


def _why_not_applied(rule: Rule) -> Iterator[str]:
    if rule.since is not None:
        yield f"A worker has had this rule enabled since {clock(rule.since)}."
    yield "Its log gives the reason in a line `loop failed` with loop=recovery."


SEARCH = Search((NEAR_ITS_LIMIT, RULE_NOT_APPLIED), _find)
