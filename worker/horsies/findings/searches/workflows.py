"""Inconsistent workflows, which the next sweep repairs, and those that no sweep repairs: paused or contradictory ones.

Repairs are found with `repairs_of`, which the sweep calls, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.quantities import span
from horsies.domain.workflow_end import error_summary
from horsies.findings import (
    NEEDS_DECISION,
    NO_WORKER_SWEEPS,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    about_rows,
    remedies,
)
from horsies.lifecycle.reconciling import stuck_workflows
from horsies.lifecycle.repairs import SYMPTOMS, DamagedWorkflowError, repairs_of
from horsies.lifecycle.workflow_rows import read_flows, read_nodes
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.findings.cluster import Cluster
    from horsies.lifecycle.repairs import Repair, Symptom
    from horsies.lifecycle.workflow_rows import FamilyWorkflowRow, NodeRow

PAUSED_BY_ERROR = FindingKind("paused by error", 30)
DAMAGED_WORKFLOW = FindingKind("damaged workflow", 100)
KINDS: Final = {
    symptom.name: FindingKind(symptom.name, 110 + place, swept="workflows" if symptom.changes else None)
    for place, symptom in enumerate(SYMPTOMS)
}
# A healthy worker takes milliseconds between the two transactions at the end of a task, under load perhaps seconds.
_YOUNG: Final = timedelta(seconds=5)
# All nodes of each are read: a hundred workflows of a thousand nodes are as many rows as a report may wait for.
_MAX_ROWS: Final = 100
_MAX_ERROR: Final = 120


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    paused = await conn.fetch(statement(__name__, "diagnose_paused_flows"), _MAX_ROWS)
    decided = await conn.fetch(statement(__name__, "diagnose_decided_flows"), _MAX_ROWS)
    damaged = await conn.fetch(statement(__name__, "damaged_workflows"), _MAX_ROWS)
    inconsistent = await _inconsistent(conn, cluster)
    return [*map(_paused, paused), *map(_decided, decided), *map(_damaged, damaged), *inconsistent]


def _paused(row: Mapping[str, Any]) -> Finding:
    error = error_summary(row["error"]) or "without an error message"
    return about_rows(
        PAUSED_BY_ERROR,
        row,
        NEEDS_DECISION,
        f"a node failed: {shorten(error, _MAX_ERROR, placeholder='…')}",
        verbs=("retry", "resume", "cancel"),
        why=(
            "Its on_error is pause: later nodes do not start until an operator decides.",
            "Retry runs failed nodes again; resume continues without them, and it ends FAILED.",
        ),
    )


def _decided(row: Mapping[str, Any]) -> Finding:
    """Completing a node does not resume the workflow: the operator may want to decide about other nodes first."""
    verbs: tuple[str, ...]
    if row["failed"]:
        state, verbs = "other nodes are still failed", ("retry", "resume", "cancel")
        why = "Complete those as well, or retry it, which runs them again; after a resume it ends FAILED."
    else:
        state, verbs = "no node is failed any more", ("resume", "cancel")
        why = "Completing a node by hand does not resume its workflow: resume continues it with that value."
    evidence = f"{row['node']} was completed by hand, and {state}"
    return about_rows(PAUSED_BY_ERROR, row, NEEDS_DECISION, evidence, verbs=verbs, why=(why,))


def _damaged(row: Mapping[str, Any]) -> Finding:
    return about_rows(
        DAMAGED_WORKFLOW,
        row,
        PredictedAction("nothing: it is skipped", Severity.NEEDS_ACTION),
        row["what"],
        verbs=("cancel",),
        why=("Another program has changed the row; correct it in SQL, or cancel the workflow.",),
    )


@dataclass(frozen=True, slots=True)
class _RepairCase:
    """One inconsistent workflow, with its repairs of one symptom, and since when."""

    symptom: Symptom
    flow: FamilyWorkflowRow
    evidence: str
    nodes: int
    since: datetime
    due: datetime
    """Time from which the sweep may repair it."""


async def _inconsistent(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    """Find the workflows to repair. Of more than a hundred the first are read, and the counts are lower bounds."""
    grace = timedelta(milliseconds=cluster.settings.crashed_worker_recovery_grace_ms)
    young = min(grace, _YOUNG)
    ids = await stuck_workflows(conn, int(young.total_seconds() * 1000), _MAX_ROWS)
    flows, nodes = await read_flows(conn, ids), await read_nodes(conn, ids)
    groups: dict[tuple[str, str], list[_RepairCase]] = {}
    for flow in flows.values():
        for case in _cases(flow, nodes[flow.id], young, grace):
            groups.setdefault((case.symptom.name, flow.name), []).append(case)
    return [_finding(same, cluster, at_least=len(ids) == _MAX_ROWS) for same in groups.values()]


def _cases(flow: FamilyWorkflowRow, nodes: list[NodeRow], young: timedelta, grace: timedelta) -> Iterator[_RepairCase]:
    try:
        repairs = repairs_of(flow, nodes, young)
    except DamagedWorkflowError:  # reported as a separate finding
        return
    by_index = {node.index: node for node in nodes}
    by_symptom: dict[Symptom, list[Repair]] = {}
    for repair in repairs:
        symptom = repair.rule.symptom
        if symptom is not None and not repair.follows and flow.updated_at + symptom.late_after <= flow.now:
            by_symptom.setdefault(symptom, []).append(repair)
    for symptom, same in by_symptom.items():
        first = same[0]
        node = by_index.get(-1 if first.index is None else first.index)
        since = flow.updated_at if node is None else node.task_ended_at or node.task_started_at or flow.updated_at
        patience = grace if first.rule.waits_for_worker else timedelta()
        evidence = first.why if first.node_id is None else f"{first.node_id} is {first.before}: {first.why}"
        yield _RepairCase(symptom, flow, evidence, len(same), since, since + patience)


def _finding(cases: list[_RepairCase], cluster: Cluster, *, at_least: bool) -> Finding:
    cases.sort(key=attrgetter("since"))
    first = cases[0]
    ids = tuple(case.flow.id for case in cases)
    others = sum(case.nodes for case in cases) - 1
    prediction = PredictedAction(first.symptom.action, Severity.HANDLED, cluster.sweep_in(first.due))
    return Finding(
        kind=KINDS[first.symptom.name],
        target_kind="workflow",
        name=first.flow.name,
        ids=ids,
        count=len(cases),
        since=first.since,
        evidence=first.evidence + (f" (and {others} more)" if others else ""),
        prediction=prediction if cluster.alive else NO_WORKER_SWEEPS,
        remedies=remedies("workflow", ids, "reconcile", "cancel"),
        why=(first.symptom.why, f"Inconsistent for {span((cluster.now - first.since).total_seconds())}."),
        at_least=at_least,
    )


SEARCH = Search((PAUSED_BY_ERROR, DAMAGED_WORKFLOW, *KINDS.values()), _find)
