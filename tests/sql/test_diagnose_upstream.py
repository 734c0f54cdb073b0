"""The recovery report and the reasons for waiting, read from a database that upstream made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from diagnose_steps import ago, of_kind

from horsies.findings.diagnose import diagnose
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.searches.in_flight import STALE_CLAIM, STALE_RUN, WORKER_LOST
from horsies.findings.searches.waiting_tasks import DEADLINE_PASSED, QUEUE_WITHOUT_WORKER, RETRY_OVERDUE
from horsies.findings.searches.workflows import KINDS
from horsies.findings.why import ReasonKind, why_pending

UPSTREAM_SHAPE = Path(__file__).with_name("upstream_shape.sql").read_text("utf-8")


@pytest.fixture
async def upstream(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A session far from UTC: the times of heartbeats have no zone there and mean UTC."""
    connection = await asyncpg.connect(empty_database, server_settings={"timezone": "Australia/Lord_Howe"})
    await connection.execute(UPSTREAM_SHAPE)
    await connection.execute("DELETE FROM horsies_tasks; DELETE FROM horsies_heartbeats")
    yield connection
    await connection.close()


async def insert(conn: asyncpg.Connection, task_id: str, status: str, **columns: str) -> None:
    given = {"task_name": "'demo.add'", "queue_name": "'default'", "enqueue_sha": "'sha'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, status, {', '.join(given)}) VALUES ($1, $2, {', '.join(given.values())})",
        task_id,
        status,
    )


async def beat(conn: asyncpg.Connection, task_id: str, seconds: float) -> None:
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        f" VALUES ($1, 'w-1:2', 'runner', ({ago(seconds)}) AT TIME ZONE 'UTC')",
        task_id,
    )


async def test_staleness_is_judged_by_times_without_a_zone(upstream: asyncpg.Connection) -> None:
    held = {"claimed_by_worker_id": "'w-1'", "claimed_at": ago(900), "started_at": ago(900)}
    for task_id, seconds in (("beats", 20), ("silent", 360)):
        await insert(upstream, task_id, "RUNNING", **held)
        await beat(upstream, task_id, seconds)
    (finding,) = of_kind(await diagnose(upstream), STALE_RUN)
    assert finding.ids == ("silent",)
    assert finding.evidence == "no heartbeat of its run for 6m00s, threshold 5m00s"
    assert (finding.prediction.action, finding.prediction.in_seconds) == ("fail as WORKER_CRASHED", None)


async def test_everything_else_is_told_too(upstream: asyncpg.Connection) -> None:
    await insert(upstream, "claim", "CLAIMED", claimed_by_worker_id="'w-1'", claimed_at=ago(900))
    await insert(upstream, "late", "PENDING", good_until=ago(10))
    await insert(upstream, "mail", "PENDING", queue_name="'nobody'")
    await insert(upstream, "due", "PENDING", next_retry_at=ago(100), enqueued_at=ago(100))
    await insert(upstream, "stopped", "FAILED", error_code="'TASK_INTERRUPTED'", failed_at=ago(10))
    report = await diagnose(upstream)
    assert {finding.kind: finding.count for finding in report.findings} == {
        STALE_CLAIM: 1,
        DEADLINE_PASSED: 1,
        QUEUE_WITHOUT_WORKER: 1,
        RETRY_OVERDUE: 1,
        INTERRUPTED: 1,
        KINDS["child finished"]: 1,
        KINDS["task row gone"]: 1,
    }
    assert report.sweep is None
    assert report.workers_alive == 1


async def test_a_worker_that_is_gone_is_found(upstream: asyncpg.Connection) -> None:
    await upstream.execute("UPDATE horsies_worker_states SET snapshot_at = now() - interval '10 min'")
    await insert(upstream, "claim", "CLAIMED", claimed_by_worker_id="'w-1'", claimed_at=ago(700))
    (finding,) = of_kind(await diagnose(upstream), WORKER_LOST)
    assert (finding.name, finding.evidence) == ("w-1", "no sign of life for 10m00s, holds 0 running and 1 claimed")


async def test_why_a_task_waits(upstream: asyncpg.Connection) -> None:
    await insert(upstream, "later", "PENDING", enqueued_at=ago(-3600))
    await insert(upstream, "first", "PENDING")
    for task_id, kind in (("later", ReasonKind.NOT_DUE), ("first", ReasonKind.NEXT)):
        why = await why_pending(upstream, task_id)
        assert why is not None
        assert [reason.kind for reason in why.reasons] == [kind]
