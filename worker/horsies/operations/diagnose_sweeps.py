"""Findings about the sweeps themselves: a rule that workers have switched on and that none runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.findings import Finding, FindingKind, Severity
from horsies.operations.formatting import clock, counted, span
from horsies.store.sweep_state import CLAIMS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.cluster import Cluster, Rule

_DOES = {
    RUNS: "what a dead worker ran stays RUNNING",
    CLAIMS: "what a dead worker had claimed waits for its lease",
}


def rule_findings(cluster: Cluster) -> Iterator[Finding]:
    for rule in cluster.unswept:
        last = "never" if rule.last is None else f"last {span((cluster.now - rule.last).total_seconds())} ago"
        wanted = f"{counted(rule.workers, 'living worker')} every {span(rule.interval_ms / 1000)}"
        yield Finding(
            kind=FindingKind.RULE_NOT_APPLIED,
            severity=Severity.NEEDS_YOU,
            target_kind="worker",
            name=name_of(rule),
            ids=(),
            count=1,
            at_least=False,
            since=rule.last or rule.since,
            evidence=f"wanted by {wanted}, swept {last}",
            system_will=f"nothing: {_DOES.get(rule.rule, 'late tasks and broken workflows stay as they are')}",
            in_seconds=None,
            may=(),
            why=tuple(_why(rule)),
        )


def name_of(rule: Rule) -> str:
    """`runs silent for 6s`, or the name of a rule without a threshold."""
    return rule.rule if rule.threshold_ms is None else f"{rule.rule} silent for {span(rule.threshold_ms / 1000)}"


def _why(rule: Rule) -> Iterator[str]:
    if rule.since is not None:
        yield f"A worker has had this rule on since {clock(rule.since)}."
    yield "Its log says why: a sweep that fails is logged there as `loop failed`, with loop=recovery."
