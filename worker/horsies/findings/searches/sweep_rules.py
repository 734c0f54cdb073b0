"""Findings about the sweeps themselves: a rule that workers have enabled but none runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.quantities import clock, counted, span
from horsies.findings import Finding, FindingKind, PredictedAction, Search, Severity
from horsies.store.worker_states import CLAIMS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import asyncpg

    from horsies.findings.cluster import Cluster, Rule

RULE_NOT_APPLIED = FindingKind("rule not applied", 220, tasks="status:claimed,running", alert="no worker sweeps {name}")
_DOES = {
    RUNS: "runs of dead workers stay RUNNING",
    CLAIMS: "claims of dead workers wait for their lease",
}


async def _find(_conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    return [_finding(rule, cluster.now) for rule in cluster.unswept]


def _finding(rule: Rule, now: datetime) -> Finding:
    last = "never" if rule.last is None else f"last {span((now - rule.last).total_seconds())} ago"
    wanted = f"{counted(rule.workers, 'living worker')} every {span(rule.interval_ms / 1000)}"
    stays = _DOES.get(rule.rule, "late tasks and broken workflows are not repaired")
    return Finding(
        kind=RULE_NOT_APPLIED,
        target_kind="worker",
        name=_name_of(rule),
        ids=(),
        count=1,
        since=rule.last or rule.since,
        evidence=f"enabled by {wanted}, swept {last}",
        prediction=PredictedAction(f"nothing: {stays}", Severity.NEEDS_ACTION),
        remedies=(),
        why=tuple(_why(rule)),
    )


def _name_of(rule: Rule) -> str:
    """`runs silent for 6s`, or the name of a rule without a threshold."""
    return rule.rule if rule.threshold_ms is None else f"{rule.rule} silent for {span(rule.threshold_ms / 1000)}"


def _why(rule: Rule) -> Iterator[str]:
    if rule.since is not None:
        yield f"A worker has had this rule enabled since {clock(rule.since)}."
    yield "Its log gives the reason in a line `loop failed` with loop=recovery."


SEARCH = Search((RULE_NOT_APPLIED,), _find)
