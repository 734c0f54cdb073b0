"""A database made by upstream, without our tables, columns and indexes, is shown and reported like any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from pathlib import Path

import asyncpg
import pytest
from diagnose_steps import ago, of_kind
from view_steps import every_id, reader, wanted

from horsies.findings.diagnose import diagnose
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.searches.in_flight import STALE_CLAIM, STALE_RUN, WORKER_LOST
from horsies.findings.searches.waiting_tasks import DEADLINE_PASSED, QUEUE_WITHOUT_WORKER, RETRY_OVERDUE
from horsies.findings.searches.workflows import KINDS
from horsies.findings.why import ReasonKind, why_pending
from horsies.views import (
    GROUPINGS,
    Sort,
    TaskDetail,
    Usual,
    audit_page,
    cluster_status,
    matching,
    queue_rows,
    task_counts,
    task_detail,
    task_groups,
    task_page,
    task_statistics,
    usual_durations,
    worker_rows,
)


@pytest.fixture
async def conn(upstream_database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await reader(upstream_database)
    yield connected
    await connected.close()


async def test_every_task_is_in_every_view(conn: asyncpg.Connection) -> None:
    ids = {row["id"] for row in await conn.fetch("SELECT id FROM horsies_tasks")}
    assert ids
    assert set(await every_id(conn)) == ids
    assert {seen.task_id for seen in await matching(conn, wanted(""), 1000)} == ids
    assert (await task_counts(conn, wanted(""))).total.number == len(ids)
    for by in GROUPINGS[1:]:
        assert sum(group.number for group in (await task_groups(conn, wanted(""), by=by)).groups) == len(ids)
    for sort in Sort:
        await task_page(conn, wanted("has:unique"), sort=sort)


async def test_each_task_can_be_opened(conn: asyncpg.Connection) -> None:
    ids = await every_id(conn)
    assert ids
    for task_id in ids:
        detail = await task_detail(conn, task_id)
        assert isinstance(detail, TaskDetail)
        assert (detail.audit, detail.reruns, detail.row.unique_key) == ((), (), None)


async def test_a_beat_without_a_zone_counts_as_utc_wherever_the_server_is(conn: asyncpg.Connection) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, enqueue_sha, claimed, retry_count, max_retries,"
        " claimed_at, started_at) VALUES ('new', 'a', 'default', 'RUNNING', '', false, 0, 0, now(), now());"
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('new', 'w:1', 'runner', (now() AT TIME ZONE 'UTC') + interval '1 ms')"
    )
    page = await task_page(conn, wanted("id:new"))
    beat = page.rows[0].beat_at
    assert beat is not None
    assert beat.tzinfo is UTC
    assert abs((page.now - beat).total_seconds()) < 60
    detail = await task_detail(conn, "new")
    assert isinstance(detail, TaskDetail)
    assert detail.executions[-1].runner == (beat,)


async def test_workers_queues_and_audit_do_without_our_tables(conn: asyncpg.Connection) -> None:
    known = {row["worker_id"] for row in await conn.fetch("SELECT worker_id FROM horsies_worker_states")}
    assert known <= {row.id for row in await worker_rows(conn, gone_within=None)}
    assert {row.paused_at for row in await queue_rows(conn)} == {None}
    page = await audit_page(conn)
    assert (page.rows, page.recorded) == ((), False)
    assert (await cluster_status(conn)).interrupted.number == 0


async def test_usual_durations_and_statistics_are_read_without_our_index(conn: asyncpg.Connection) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, enqueue_sha, claimed, retry_count, max_retries,"
        " started_at, completed_at) VALUES ('new', 'a', 'default', 'COMPLETED', '', false, 0, 0,"
        " now() AT TIME ZONE 'UTC' - interval '5 s', now() AT TIME ZONE 'UTC')"
    )
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at)"
        " SELECT 'new', n, CASE n WHEN 1 THEN 'FAILED' ELSE 'COMPLETED' END, n = 1, ended - n * interval '2 s', ended"
        "   FROM generate_series(1, 3) n CROSS JOIN (SELECT now() AT TIME ZONE 'UTC' AS ended) moment"
    )
    assert await usual_durations(conn, ["a", "none"]) == {"a": Usual(4.0, 6.0, 2)}
    (row,) = (await task_statistics(conn, wanted("name:a -has:unique"), timedelta(hours=1))).names
    assert (row.tasks, row.run_p50, 3600 <= row.over_s < 3601) == (1, 5.0, True)


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
