"""Workflows that no sweep repairs: a failed node has paused them, or their rows are contradictory."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.workflow_end import error_summary
from horsies.findings import (
    NEEDS_DECISION,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    remedies,
)
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.findings.cluster import Cluster

PAUSED_BY_ERROR = FindingKind("paused by error", 30)
DAMAGED_WORKFLOW = FindingKind("damaged workflow", 100)
_MAX_ROWS: Final = 100
_MAX_ERROR: Final = 120


async def _find(conn: asyncpg.Connection, _cluster: Cluster) -> list[Finding]:
    paused = await conn.fetch(statement(__name__, "diagnose_paused_flows"), _MAX_ROWS)
    decided = await conn.fetch(statement(__name__, "diagnose_decided_flows"), _MAX_ROWS)
    damaged = await conn.fetch(statement(__name__, "damaged_workflows"), _MAX_ROWS)
    return [*map(_paused, paused), *map(_decided, decided), *map(_damaged, damaged)]


def _paused(row: Mapping[str, Any]) -> Finding:
    error = error_summary(row["error"]) or "without an error message"
    return _finding(
        row,
        f"a node failed: {shorten(error, _MAX_ERROR, placeholder='…')}",
        ("retry", "resume", "cancel"),
        (
            "Its on_error is pause: later nodes do not start until an operator decides.",
            "Retry runs failed nodes again; resume continues without them, and it ends FAILED.",
        ),
    )


def _decided(row: Mapping[str, Any]) -> Finding:
    """Completing a node does not resume the workflow: the operator may want to decide about other nodes first."""
    done = f"{row['node']} was completed by hand"
    if row["failed"]:
        return _finding(
            row,
            f"{done}, and other nodes are still failed",
            ("retry", "resume", "cancel"),
            ("Complete those as well, or retry it, which runs them again; after a resume it ends FAILED.",),
        )
    return _finding(
        row,
        f"{done}, and no node is failed any more",
        ("resume", "cancel"),
        ("Completing a node by hand does not resume its workflow: resume continues it with that value.",),
    )


def _finding(row: Mapping[str, Any], evidence: str, verbs: tuple[str, ...], why: tuple[str, ...]) -> Finding:
    return Finding(
        kind=PAUSED_BY_ERROR,
        target_kind="workflow",
        name=row["name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        since=row["since"],
        evidence=evidence,
        prediction=NEEDS_DECISION,
        remedies=remedies("workflow", row["ids"], *verbs),
        why=why,
    )


def _damaged(row: Mapping[str, Any]) -> Finding:
    return Finding(
        kind=DAMAGED_WORKFLOW,
        target_kind="workflow",
        name=row["name"],
        ids=(row["id"],),
        count=1,
        since=row["since"],
        evidence=row["what"],
        prediction=PredictedAction("nothing: it is skipped", Severity.NEEDS_ACTION),
        remedies=remedies("workflow", (row["id"],), "cancel"),
        why=("Another program has changed the row; correct it in SQL, or cancel the workflow.",),
    )


SEARCH = Search((PAUSED_BY_ERROR, DAMAGED_WORKFLOW), _find)
