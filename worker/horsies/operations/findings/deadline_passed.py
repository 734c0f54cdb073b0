"""Tasks that were not started before their good_until."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.eligibility import TaskVerb
from horsies.operations.findings import (
    MOST_IDS,
    NO_WORKER_SWEEPS,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    about_tasks,
)
from horsies.operations.formatting import span
from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.operations.cluster import Cluster
    from horsies.operations.findings import Finding

DEADLINE_PASSED = FindingKind(
    "deadline passed", 180, state="EXPIRED", tasks="status:pending,retry has:deadline", swept="overdue"
)
_MOST_COUNTED = 10_000


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_expiring"), _MOST_COUNTED, MOST_IDS)
    capped = sum(row["count"] for row in rows) >= _MOST_COUNTED
    expires = PredictedAction("expire", Severity.HANDLED, cluster.sweep_in())
    return [
        about_tasks(
            DEADLINE_PASSED,
            row,
            expires if cluster.alive else NO_WORKER_SWEEPS,
            evidence=f"its deadline passed {_ago(row['since'], cluster)} ago and it has not started",
            verbs=(TaskVerb.EXPIRE, TaskVerb.CANCEL),
            why=("No worker starts a task after its good_until.",),
            at_least=capped,
        )
        for row in rows
    ]


def _ago(moment: datetime, cluster: Cluster) -> str:
    return span((cluster.now - moment).total_seconds())


SEARCH = Search((DEADLINE_PASSED,), _find)
