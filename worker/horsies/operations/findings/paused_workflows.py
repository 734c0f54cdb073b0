"""Workflows that paused because a node failed, until an operator decides about them."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.workflow_end import error_summary
from horsies.operations.findings import NEEDS_DECISION, Finding, FindingKind, Search, remedies
from horsies.operations.workflow_eligibility import WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.operations.cluster import Cluster

PAUSED_BY_ERROR = FindingKind("paused by error", 30)
_MOST_IDS: Final = 100
_LONGEST_ERROR: Final = 120


async def _find(conn: asyncpg.Connection, _cluster: Cluster) -> list[Finding]:
    paused = await conn.fetch(statement(__name__, "diagnose_paused_flows"), _MOST_IDS)
    decided = await conn.fetch(statement(__name__, "diagnose_decided_flows"), _MOST_IDS)
    return [*map(_paused, paused), *map(_decided, decided)]


def _paused(row: Mapping[str, Any]) -> Finding:
    error = error_summary(row["error"]) or "its error tells nothing"
    return _finding(
        row,
        f"a node failed: {shorten(error, _LONGEST_ERROR, placeholder='…')}",
        (WorkflowVerb.RETRY_FROM_FAILED, WorkflowVerb.RESUME, WorkflowVerb.CANCEL),
        (
            "Its on_error is pause: nothing that follows starts until an operator has decided.",
            "Retry runs what failed again; resumed as it is, it goes on without that and ends FAILED.",
        ),
    )


def _decided(row: Mapping[str, Any]) -> Finding:
    """Completing a node does not resume the workflow: the operator may want to decide about other nodes first."""
    done = f"{row['node']} was completed by hand"
    if row["failed"]:
        return _finding(
            row,
            f"{done}, and others are still failed",
            (WorkflowVerb.RETRY_FROM_FAILED, WorkflowVerb.RESUME, WorkflowVerb.CANCEL),
            ("Complete those as well, or retry it, which runs them again; resumed as it is, it ends FAILED.",),
        )
    return _finding(
        row,
        f"{done}, and nothing in it is failed any more",
        (WorkflowVerb.RESUME, WorkflowVerb.CANCEL),
        ("Completing a node by hand does not resume its workflow: resume lets it go on with that value.",),
    )


def _finding(row: Mapping[str, Any], evidence: str, verbs: tuple[WorkflowVerb, ...], why: tuple[str, ...]) -> Finding:
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


SEARCH = Search((PAUSED_BY_ERROR,), _find)
