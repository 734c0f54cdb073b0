"""Tasks that a worker stopped when it was shut down, until an operator decides about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.findings import MOST_IDS, NEEDS_DECISION, RUNS_AGAIN, FindingKind, Search, about_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg

    from horsies.findings import Finding
    from horsies.findings.cluster import Cluster

INTERRUPTED = FindingKind("interrupted", 10, state="INTERRUPTED", tasks="status:interrupted")
_MAX_COUNTED = 10_000


async def _find(conn: asyncpg.Connection, _cluster: Cluster) -> list[Finding]:
    rows = await conn.fetch(statement(__name__, "diagnose_interrupted"), _MAX_COUNTED, MOST_IDS)
    capped = sum(row["count"] for row in rows) >= _MAX_COUNTED
    return [
        about_rows(
            INTERRUPTED,
            row,
            NEEDS_DECISION,
            f"stopped past its grace{_on(row['hosts'])}",
            verbs=("requeue", "fail", "rerun"),
            why=("A worker was shut down while it ran, and its requeue_on_interrupt is off.", RUNS_AGAIN),
            at_least=capped,
        )
        for row in rows
    ]


def _on(stored: list[str | None]) -> str:
    hosts = sorted(host for host in stored if host)
    return f" on {', '.join(hosts[:3])}{' and others' if hosts[3:] else ''}" if hosts else ""


SEARCH = Search((INTERRUPTED,), _find)
