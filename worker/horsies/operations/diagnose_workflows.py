"""Findings among workflows: by the cases of the reconciliation, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.workflow_end import error_summary
from horsies.lifecycle.reconciling import DamagedWorkflowError, stuck_workflows
from horsies.lifecycle.repairs import Kind, repairs_of
from horsies.lifecycle.workflow_rows import read_flows, read_nodes
from horsies.operations.findings import Finding, FindingKind, Remedy, Severity
from horsies.operations.formatting import span
from horsies.operations.predictions import NOBODY_SWEEPS
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.lifecycle.repairs import Repair
    from horsies.lifecycle.workflow_rows import NodeRow, WorkflowRow
    from horsies.operations.cluster import Cluster

# All nodes of each are read: a hundred workflows of a thousand nodes are as many rows as a report may wait for.
_MOST: Final = 100
# Between the two transactions at the end of a task a healthy worker takes milliseconds, under load perhaps seconds.
_YOUNG: Final = timedelta(seconds=5)
# A worker builds a child at once after a notification, and otherwise at its next poll.
_CHILD_LATE: Final = timedelta(seconds=30)

_LONGEST_ERROR: Final = 120

_KINDS: Final[Mapping[Kind, FindingKind]] = {
    Kind.TASK_ENDED: FindingKind.NODE_OUT_OF_STEP,
    Kind.TASK_STARTED: FindingKind.NODE_OUT_OF_STEP,
    Kind.TASK_QUEUED: FindingKind.NODE_OUT_OF_STEP,
    Kind.CHILD_STARTED: FindingKind.NODE_OUT_OF_STEP,
    Kind.JOIN: FindingKind.WORKFLOW_STALLED,
    Kind.ALL_ENDED: FindingKind.WORKFLOW_STALLED,
    Kind.NO_TASK: FindingKind.NODE_WITHOUT_TASK,
    Kind.CHILD_ENDED: FindingKind.CHILD_FINISHED,
    Kind.CHILD_NOT_STARTED: FindingKind.CHILD_NOT_STARTED,
    Kind.TASK_GONE: FindingKind.TASK_ROW_GONE,
    Kind.CHILD_GONE: FindingKind.TASK_ROW_GONE,
}
_WHY: Final[Mapping[FindingKind, str]] = {
    FindingKind.NODE_OUT_OF_STEP: (
        "A worker stores the outcome of a task first and tells its workflow in a second transaction: one that is killed"
        " between the two leaves them so."
    ),
    FindingKind.WORKFLOW_STALLED: "Nothing is left that would move it: what it waited for has ended.",
    FindingKind.NODE_WITHOUT_TASK: "It may run, and no worker can take it, for there is no task in the queue.",
    FindingKind.CHILD_FINISHED: "Its child workflow has ended, and its own node has not heard of it.",
    FindingKind.CHILD_NOT_STARTED: "A worker that has its definition builds the child; none has done so yet.",
    FindingKind.TASK_ROW_GONE: "Retention keeps what live workflows need: the row was deleted by something else.",
    FindingKind.DAMAGED_WORKFLOW: "The row was changed by something other than horsies; mend it in SQL, or cancel it.",
}
_WILL: Final[Mapping[FindingKind, str]] = {
    FindingKind.CHILD_NOT_STARTED: "tell the workers again",
    FindingKind.TASK_ROW_GONE: "fail the node",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """One inconsistent workflow, with its repairs, and since when."""

    kind: FindingKind
    flow: WorkflowRow
    evidence: str
    nodes: int
    since: datetime
    due: datetime
    """When the sweep may repair it."""


async def workflow_findings(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    """If more than a hundred workflows are stuck, only the first hundred are read, and the counts are lower bounds."""
    grace = timedelta(milliseconds=cluster.settings.crashed_worker_recovery_grace_ms)
    young = min(grace, _YOUNG)
    ids = await stuck_workflows(conn, int(young.total_seconds() * 1000), _MOST)
    flows, nodes = await read_flows(conn, ids), await read_nodes(conn, ids)
    cases = [case for flow in flows.values() for case in _cases(flow, nodes[flow.id], young, grace)]
    capped = len(ids) == _MOST
    groups: dict[tuple[FindingKind, str], list[_Case]] = {}
    for case in cases:
        groups.setdefault((case.kind, case.flow.name), []).append(case)
    found = [_finding(same, cluster, at_least=capped) for same in groups.values()]
    found += [_damaged(row) for row in await conn.fetch(statement(__name__, "damaged_workflows"), _MOST)]
    found += [_paused(row) for row in await conn.fetch(statement(__name__, "diagnose_paused_flows"), _MOST)]
    return found + [_decided(row) for row in await conn.fetch(statement(__name__, "diagnose_decided_flows"), _MOST)]


def _cases(flow: WorkflowRow, nodes: list[NodeRow], young: timedelta, grace: timedelta) -> Iterator[_Case]:
    try:
        repairs = [one for one in repairs_of(flow, nodes, young) if not one.follows]
    except DamagedWorkflowError:  # has a line of its own
        return
    by_index = {node.index: node for node in nodes}
    by_kind: dict[FindingKind, list[Repair]] = {}
    for repair in repairs:
        if repair.kind in _KINDS and not _is_early(repair, flow):
            by_kind.setdefault(_KINDS[repair.kind], []).append(repair)
    for kind, same in by_kind.items():
        first = same[0]
        node = by_index.get(-1 if first.index is None else first.index)
        ended = flow.updated_at if node is None else node.task_ended_at or node.task_started_at or flow.updated_at
        patience = grace if first.kind in (Kind.TASK_ENDED, Kind.TASK_STARTED) else timedelta()
        yield _Case(kind, flow, _evidence(first), len(same), ended, ended + patience)


def _is_early(repair: Repair, flow: WorkflowRow) -> bool:
    return repair.kind is Kind.CHILD_NOT_STARTED and flow.updated_at + _CHILD_LATE > flow.now


def _evidence(repair: Repair) -> str:
    if repair.node_id is None:
        return repair.why
    return f"{repair.node_id} is {repair.before}: {repair.why}"


def _finding(cases: list[_Case], cluster: Cluster, *, at_least: bool) -> Finding:
    cases.sort(key=attrgetter("since"))
    first = cases[0]
    ids = tuple(case.flow.id for case in cases)
    others = sum(case.nodes for case in cases) - 1
    return Finding(
        kind=first.kind,
        severity=Severity.HANDLED if cluster.alive else Severity.NEEDS_YOU,
        target_kind="workflow",
        name=first.flow.name,
        ids=ids,
        count=len(cases),
        at_least=at_least,
        since=first.since,
        evidence=first.evidence + (f" (and {others} more)" if others else ""),
        system_will=_WILL.get(first.kind, "reconcile") if cluster.alive else NOBODY_SWEEPS,
        in_seconds=cluster.sweep_in(first.due) if cluster.alive else None,
        may=_may(ids, "reconcile", "cancel"),
        why=(_WHY[first.kind], f"It has been so for {span((cluster.now - first.since).total_seconds())}."),
    )


def _damaged(row: Mapping[str, Any]) -> Finding:
    return Finding(
        kind=FindingKind.DAMAGED_WORKFLOW,
        severity=Severity.NEEDS_YOU,
        target_kind="workflow",
        name=row["name"],
        ids=(row["id"],),
        count=1,
        at_least=False,
        since=row["since"],
        evidence=row["what"],
        system_will="nothing: it is stepped over",
        in_seconds=None,
        may=_may((row["id"],), "cancel"),
        why=(_WHY[FindingKind.DAMAGED_WORKFLOW],),
    )


def _paused(row: Mapping[str, Any]) -> Finding:
    error = error_summary(row["error"]) or "its error tells nothing"
    return _waits_for_you(
        row,
        f"a node failed: {shorten(error, _LONGEST_ERROR, placeholder='…')}",
        ("retry", "resume", "cancel"),
        (
            "Its on_error is pause: nothing that follows starts until an operator has decided.",
            "Retry runs what failed again; resumed as it is, it goes on without that and ends FAILED.",
        ),
    )


def _decided(row: Mapping[str, Any]) -> Finding:
    """Completing a node does not resume the workflow: the operator may want to decide about other nodes first."""
    done = f"{row['node']} was completed by hand"
    if row["failed"]:
        return _waits_for_you(
            row,
            f"{done}, and others are still failed",
            ("retry", "resume", "cancel"),
            ("Complete those as well, or retry it, which runs them again; resumed as it is, it ends FAILED.",),
        )
    return _waits_for_you(
        row,
        f"{done}, and nothing in it is failed any more",
        ("resume", "cancel"),
        ("Completing a node by hand does not resume its workflow: resume lets it go on with that value.",),
    )


def _waits_for_you(row: Mapping[str, Any], evidence: str, verbs: tuple[str, ...], why: tuple[str, ...]) -> Finding:
    return Finding(
        kind=FindingKind.PAUSED_BY_ERROR,
        severity=Severity.NEEDS_YOU,
        target_kind="workflow",
        name=row["name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        at_least=False,
        since=row["since"],
        evidence=evidence,
        system_will="nothing; needs your decision",
        in_seconds=None,
        may=_may(row["ids"], *verbs),
        why=why,
    )


def _may(ids: Iterable[str], *verbs: str) -> tuple[Remedy, ...]:
    targets = tuple(ids)
    return tuple(Remedy(verb, "workflow", targets) for verb in verbs)
