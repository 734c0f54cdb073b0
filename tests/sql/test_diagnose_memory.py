"""The report on memory: a worker whose container, or one of whose children, is near its limit."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from diagnose_steps import the_only

from horsies.findings import Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.workers import NEAR_ITS_LIMIT


async def report(conn: asyncpg.Connection, *, ago_s: float = 0, **columns: Any) -> None:
    """A snapshot of one worker."""
    given = {"processes": 2, **columns}
    places = ", ".join(f"${at}" for at in range(2, 2 + len(given)))
    await conn.execute(
        "INSERT INTO horsies_worker_states"
        f" (worker_id, snapshot_at, hostname, pid, {', '.join(given)}, max_claim_batch, max_claim_per_worker, queues,"
        "  worker_started_at)"
        f" VALUES ('w', now() - $1::float8 * interval '1 s', 'web-1', 7, {places}, 8, 8, '{{q}}', now())",
        ago_s,
        *given.values(),
    )


async def test_a_container_near_its_limit_is_told_with_its_host_and_largest_child(
    connection: asyncpg.Connection,
) -> None:
    for ago_s, used in ((15, 890.0), (10, 905.0), (5, 910.0), (0, 943.0)):
        await report(
            connection,
            ago_s=ago_s,
            container_memory_mb=used,
            container_limit_mb=1_000.0,
            largest_child_mb=600.0,
            largest_child_pid=4133,
        )
    finding = await the_only(connection, NEAR_ITS_LIMIT)
    assert (finding.name, finding.target_kind) == ("w", "worker")
    assert finding.evidence == (
        "pid 7 on web-1: its container uses 943.0 MB of 1000.0 MB (94%); its largest child is child 4133"
    )
    assert finding.prediction.severity is Severity.HANDLED
    assert finding.since == await connection.fetchval(
        "SELECT snapshot_at FROM horsies_worker_states WHERE container_memory_mb = 905"
    )


async def test_a_child_near_its_limit_is_told_with_its_pid(connection: asyncpg.Connection) -> None:
    await report(connection, largest_child_mb=950.0, child_limit_mb=1_000.0, largest_child_pid=4133)
    finding = await the_only(connection, NEAR_ITS_LIMIT)
    assert finding.evidence == "pid 7 on web-1: child 4133 uses 950.0 MB of its limit of 1000.0 MB (95%)"


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"container_memory_mb": 899.0, "container_limit_mb": 1_000.0},
        {"largest_child_mb": 899.0, "child_limit_mb": 1_000.0, "largest_child_pid": 4},
        {"container_memory_mb": 999.0, "container_limit_mb": 1_000.0, "processes": 0},
        {"container_memory_mb": float("inf"), "container_limit_mb": 1_000.0},
        {"container_memory_mb": float("nan"), "container_limit_mb": float("nan")},
        {"largest_child_mb": 5.0, "child_limit_mb": -1.0},
    ],
    ids=["no limit", "far from it", "child far from it", "stopped", "infinite", "no number", "negative"],
)
async def test_otherwise_nothing_is_said(connection: asyncpg.Connection, columns: dict[str, Any]) -> None:
    await report(connection, container_memory_mb=999.0, container_limit_mb=1_000.0, ago_s=5)
    await report(connection, **columns)
    assert [row for row in (await diagnose(connection)).findings if row.kind is NEAR_ITS_LIMIT] == []
