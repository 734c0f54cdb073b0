"""Workflows with rows that make no sense, which every sweep steps over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.findings import Finding, FindingKind, PredictedAction, Search, Severity, remedies
from horsies.operations.workflow_eligibility import WorkflowVerb
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg

    from horsies.operations.cluster import Cluster

DAMAGED_WORKFLOW = FindingKind("damaged workflow", 100)
_MOST: Final = 100


async def _find(conn: asyncpg.Connection, _cluster: Cluster) -> list[Finding]:
    return [
        Finding(
            kind=DAMAGED_WORKFLOW,
            target_kind="workflow",
            name=row["name"],
            ids=(row["id"],),
            count=1,
            since=row["since"],
            evidence=row["what"],
            prediction=PredictedAction("nothing: it is stepped over", Severity.NEEDS_ACTION),
            remedies=remedies("workflow", (row["id"],), WorkflowVerb.CANCEL),
            why=("The row was changed by something other than horsies; mend it in SQL, or cancel it.",),
        )
        for row in await conn.fetch(statement(__name__, "damaged_workflows"), _MOST)
    ]


SEARCH = Search((DAMAGED_WORKFLOW,), _find)
