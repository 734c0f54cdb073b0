"""Runs far beyond what is usual, claims behind a busy worker while another one idles, memory near its limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from diagnose_steps import beat, claimed, drain, insert, of_kind, pause, running, the_only

from horsies.findings import Finding, Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.in_flight import STALE_RUN
from horsies.findings.searches.unusual import BEHIND_BUSY, BEHIND_RUN, LEAST_RUNS, RUNS_LONG
from horsies.findings.searches.workers import NEAR_ITS_LIMIT
from horsies.views import READER_SETTINGS


async def past_runs(conn: asyncpg.Connection, name: str, took_s: float, count: int = LEAST_RUNS) -> None:
    """Completed ones, one in ten twice as long as the others."""
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, enqueue_sha, claimed, retry_count, max_retries,"
        " started_at, completed_at)"
        " SELECT $1 || n, $1, 'default', 'COMPLETED', '', false, 0, 0,"
        "        at - $2::float8 * CASE WHEN n % 10 = 0 THEN 2 ELSE 1 END * interval '1 s', at"
        "   FROM generate_series(1, $3::int) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 min' AS at) ended",
        name,
        took_s,
        count,
    )
    # In databases of upstream these are read.
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at)"
        " SELECT id, 1, 'COMPLETED', false, started_at, completed_at FROM horsies_tasks"
        "  WHERE task_name = $1 AND status = 'COMPLETED'",
        name,
    )


async def fleet(conn: asyncpg.Connection, worker_id: str, *, running_tasks: int, **changes: Any) -> None:
    """Snapshots of a worker with four processes in the last half minute."""
    given: dict[str, Any] = {"queues": ["default"], "names": ["demo.add"], "since_s": 30, "draining": False, **changes}
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at, task_names, tasks_running, draining, queue_max_concurrency)"
        " SELECT $1, now() - ago * interval '1 s', 'host', 1, 4, 8, 8, $2, now(), $3, $4, $5, $6"
        "   FROM generate_series(1, $7::int, 5) AS ago",
        worker_id,
        given["queues"],
        given["names"],
        running_tasks,
        given["draining"],
        given.get("caps"),
        given["since_s"],
    )


async def behind(conn: asyncpg.Connection) -> list[Finding]:
    return of_kind(await diagnose(conn), BEHIND_BUSY)


@pytest.fixture
async def busy(connection: asyncpg.Connection) -> asyncpg.Connection:
    """w-1 runs as much as it can and holds a claim."""
    await fleet(connection, "w-1", running_tasks=4)
    await running(connection, "r1", "r2", "r3", "r4", seconds=20)
    await claimed(connection, "c1", "c2", seconds=40)
    return connection


async def test_a_run_far_beyond_the_usual_is_found_with_the_figures(connection: asyncpg.Connection) -> None:
    await past_runs(connection, "shop.report", 70)
    await running(connection, "t1", "t2", seconds=843, task_name="'shop.report'", queue_name="'reports'")
    await running(connection, "t3", seconds=400, task_name="'shop.report'", queue_name="'reports'")
    for task_id in ("t1", "t2", "t3"):
        await beat(connection, task_id, 5)
    found = await the_only(connection, RUNS_LONG)
    assert (found.name, found.queue_name, found.ids, found.count) == ("shop.report", "reports", ("t1", "t2"), 2)
    assert found.evidence == "the longest runs 14m03s, usually 1m10s (p95 2m20s)"
    assert (found.prediction.severity, found.prediction.action) == (Severity.NOTE, "nothing: it still beats")
    assert [(remedy.verb, remedy.ids) for remedy in found.remedies] == [
        ("fail", ("t1", "t2")),
        ("requeue", ("t1", "t2")),
    ]
    await connection.execute("DELETE FROM horsies_tasks WHERE id = 't2'")
    assert (await the_only(connection, RUNS_LONG)).evidence.startswith("runs 14m03s, usually")


@pytest.mark.parametrize(
    ("seconds", "took_s", "past"),
    [(1_790, 10, LEAST_RUNS - 1), (29, 0.01, 50), (300, 60, 50), (1_790, 10, 0), (2_000, 700, 5)],
    ids=[
        "few runs are known",
        "shorter than is ever unusual",
        "within three times the p95",
        "no runs are known",
        "a few runs took nearly as long",
    ],
)
async def test_a_run_is_not_unusual_where(
    connection: asyncpg.Connection, seconds: int, took_s: float, past: int
) -> None:
    await past_runs(connection, "shop.report", took_s, past)
    await past_runs(connection, "shop.other", 0.01)
    await running(connection, "t1", seconds=seconds, task_name="'shop.report'")
    await beat(connection, "t1", 5)
    assert of_kind(await diagnose(connection), RUNS_LONG) == []


async def test_a_run_that_no_longer_beats_is_stale_and_not_also_long(connection: asyncpg.Connection) -> None:
    await past_runs(connection, "shop.report", 5)
    await running(connection, "t1", seconds=2_000, task_name="'shop.report'")
    await beat(connection, "t1", 1_000)
    await running(connection, "t2", seconds=2_000, task_name="'shop.report'", worker="w-2")
    await beat(connection, "t2", 100)
    report = await diagnose(connection)
    assert [finding.ids for finding in of_kind(report, STALE_RUN)] == [("t1",)]
    # It has missed three beats: whether it is only slow is not known.
    assert of_kind(report, RUNS_LONG) == []


async def hang(conn: asyncpg.Connection, seconds: float = 460) -> None:
    """A run of a name without history in the only child of w-1."""
    await fleet(conn, "w-1", running_tasks=1)
    await conn.execute("UPDATE horsies_worker_states SET processes = 1")
    report = {"task_name": "'shop.hangs'", "queue_name": "'reports'", "worker_pid": "71"}
    await running(conn, "hung", seconds=seconds, **report)
    await beat(conn, "hung", 5)


@pytest.mark.parametrize("waits", ["a claim", "a due task", "a due task at a cap"])
async def test_a_run_without_a_usual_duration_is_long_after_five_minutes_if_others_wait_for_its_place(
    connection: asyncpg.Connection, waits: str
) -> None:
    await hang(connection)
    assert of_kind(await diagnose(connection), RUNS_LONG) == []
    match waits:
        case "a claim":
            await claimed(connection, "c1", seconds=20)
        case "a due task":
            await insert(connection, "p1", enqueued_at="now() - interval '20 s'")
        case _:
            await connection.execute("DELETE FROM horsies_worker_states")
            await fleet(connection, "w-2", running_tasks=0, queues=["reports"], caps='{"reports": 1}')
            await insert(connection, "p1", queue_name="'reports'", enqueued_at="now() - interval '20 s'")
    found = await the_only(connection, RUNS_LONG)
    assert (found.name, found.ids) == ("shop.hangs", ("hung",))
    assert found.evidence == "runs 7m40s on w-1 child 71; others wait for its place; its usual duration is not known"
    await connection.execute("UPDATE horsies_tasks SET started_at = now() - interval '290 s' WHERE id = 'hung'")
    assert of_kind(await diagnose(connection), RUNS_LONG) == []


@pytest.mark.parametrize("waits", ["a claim since a moment", "a retry due later", "a task due later", "it is paused"])
async def test_nobody_waits_for_the_place_of_a_run_if(connection: asyncpg.Connection, waits: str) -> None:
    await hang(connection)
    match waits:
        case "a claim since a moment":
            await claimed(connection, "c1", seconds=5)
        case "a retry due later":
            later = {"next_retry_at": "now() + interval '1 h'", "enqueued_at": "now() - interval '1 h'"}
            await insert(connection, "p1", **later)
        case "a task due later":
            await insert(connection, "p1", enqueued_at="now() + interval '1 h'")
        case _:
            await insert(connection, "p1", enqueued_at="now() - interval '20 s'")
            await pause(connection, "default")
    assert of_kind(await diagnose(connection), RUNS_LONG) == []


async def test_a_run_without_a_usual_duration_is_long_after_half_an_hour_if_nobody_waits(
    connection: asyncpg.Connection,
) -> None:
    await hang(connection, 1_900)
    found = await the_only(connection, RUNS_LONG)
    assert found.evidence == "runs 31m40s on w-1 child 71; its usual duration is not known"
    assert "after 5m00s if others wait for its place, and after 30m00s otherwise" in found.why[0]


async def test_what_starves_in_a_child_is_not_blamed_but_names_the_run_before_it(
    connection: asyncpg.Connection,
) -> None:
    """RUNNING in the database, but its child has not called its code: two neighbours of a task that hangs."""
    await hang(connection)
    await past_runs(connection, "shop.resize", 0.01)
    await running(connection, "n1", "n2", seconds=455, task_name="'shop.resize'", worker_pid="71")
    await running(connection, "other", seconds=455, task_name="'shop.resize'", worker_pid="72")
    for task_id in ("n1", "n2", "other"):
        await beat(connection, task_id, 5)
    report = await diagnose(connection)
    evidence = "runs 7m40s on w-1 child 71; 2 others in its child may wait for it; its usual duration is not known"
    assert evidence in {found.evidence for found in of_kind(report, RUNS_LONG)}
    assert {(found.name, found.ids) for found in of_kind(report, RUNS_LONG)} == {
        ("shop.hangs", ("hung",)),
        ("shop.resize", ("other",)),
    }
    (starved,) = of_kind(report, BEHIND_RUN)
    assert (starved.ids, starved.prediction.severity, starved.alert_severity) == (("n1", "n2"), Severity.NOTE, None)
    assert starved.evidence == "RUNNING for 7m35s in w-1 child 71, where shop.hangs hung has run for 7m40s"
    assert "`horsies tasks stack hung`, or S" in starved.why[1]
    # Started in one batch, they have the same time: the order is that of the claim.
    await connection.execute(
        "UPDATE horsies_tasks SET started_at = now() - interval '460 s', claimed_at = now() - interval '460 s',"
        " priority = CASE id WHEN 'hung' THEN 1 ELSE 2 END WHERE worker_pid = 71;"
        "UPDATE horsies_tasks SET id = 'a1' WHERE id = 'n1'"
    )
    (starved,) = of_kind(await diagnose(connection), BEHIND_RUN)
    assert "shop.hangs hung has run for 7m40s" in starved.evidence
    # As long as nothing is said of the other run, they are the alert, which names it.
    await connection.execute("UPDATE horsies_tasks SET started_at = now() - interval '100 s' WHERE worker_pid = 71")
    report = await diagnose(connection)
    (starved,) = of_kind(report, BEHIND_RUN)
    assert starved.alert_severity is Severity.HANDLED
    assert "where shop.hangs hung has run for 1m40s" in starved.evidence
    assert {found.name for found in of_kind(report, RUNS_LONG)} == {"shop.resize"}


async def test_claims_wait_behind_a_busy_worker_while_another_has_room(busy: asyncpg.Connection) -> None:
    assert await behind(busy) == []
    await fleet(busy, "w-2", running_tasks=1)
    (found,) = await behind(busy)
    assert (found.name, found.queue_name, found.worker_id, found.count) == ("demo.add", "default", "w-1", 2)
    assert found.ids == ("c1", "c2")
    assert found.evidence == (
        "claimed 40s ago by w-1, whose 4 processes are all busy: demo.add r1 has run for 20s; w-2 has 3 free"
    )
    assert "`horsies tasks stack c1` shows what runs in its place" in found.why[0]
    await busy.execute("UPDATE horsies_tasks SET started_at = NULL")
    assert "the longest run is not known; w-2 has 3 free" in (await behind(busy))[0].evidence
    assert found.prediction.severity is Severity.NOTE
    assert [remedy.verb for remedy in found.remedies] == ["release", "cancel"]


@pytest.mark.parametrize(
    "other",
    [
        {"running_tasks": 4},
        {"running_tasks": 1, "queues": ["mail"]},
        {"running_tasks": 1, "names": ["demo.other"]},
        {"running_tasks": 1, "draining": True},
        {"running_tasks": 1, "since_s": 10},
        {"running_tasks": 1, "caps": '{"default": 4}'},
    ],
    ids=["busy too", "another queue", "another name", "it drains", "just started", "the queue is at its cap"],
)
async def test_claims_do_not_wait_for_the_wrong_worker_where_the_other(
    busy: asyncpg.Connection, other: dict[str, Any]
) -> None:
    await fleet(busy, "w-2", **other)
    assert await behind(busy) == []


@pytest.mark.parametrize("why", ["young", "paused", "drains", "a process is free", "lease ran out"])
async def test_claims_do_not_wait_for_the_wrong_worker_if(busy: asyncpg.Connection, why: str) -> None:
    await fleet(busy, "w-2", running_tasks=1)
    match why:
        case "young":
            await busy.execute("UPDATE horsies_tasks SET claimed_at = now() - interval '10 s' WHERE status = 'CLAIMED'")
        case "paused":
            await pause(busy, "default")
        case "drains":
            await drain(busy, "w-2")
        case "a process is free":
            await busy.execute("DELETE FROM horsies_tasks WHERE id = 'r1'")
        case _:
            await busy.execute("UPDATE horsies_tasks SET claim_expires_at = now() WHERE status = 'CLAIMED'")
    assert await behind(busy) == []


async def test_a_worker_that_got_tasks_since_its_snapshot_has_no_room(busy: asyncpg.Connection) -> None:
    await fleet(busy, "w-2", running_tasks=0)
    await claimed(busy, "d1", "d2", "d3", "d4", seconds=1, worker="w-2")
    assert await behind(busy) == []


@pytest.fixture
async def upstream(upstream_database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(upstream_database, server_settings=dict(READER_SETTINGS))
    yield connected
    await connected.close()


async def test_both_are_found_in_a_database_of_upstream(upstream: asyncpg.Connection) -> None:
    await upstream.execute("DELETE FROM horsies_tasks; DELETE FROM horsies_worker_states")
    await past_runs(upstream, "shop.report", 5)
    await upstream.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at, tasks_running, tasks_claimed)"
        " SELECT worker, now() - ago * interval '1 s', 'host', 1, 1, 8, 8, '{default}', now(),"
        "        CASE worker WHEN 'w-1' THEN 1 ELSE 0 END, 0"
        "   FROM unnest('{w-1,w-2}'::text[]) worker CROSS JOIN generate_series(1, 30, 5) AS ago"
    )
    given = {"enqueue_sha": "''", "retry_count": "0", "max_retries": "0", "claimed_by_worker_id": "'w-1'"}
    at = "now() - interval '200 s'"
    report = {"task_name": "'shop.report'", "priority": "1"}
    await insert(
        upstream,
        "r",
        **{**given, **report, "status": "'RUNNING'", "claimed": "false", "claimed_at": at, "started_at": at},
    )
    await upstream.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('r', 'w-1', 'runner', now() AT TIME ZONE 'UTC')"
    )
    claim = {"status": "'CLAIMED'", "claimed": "true", "claimed_at": at, "claim_expires_at": "now() + interval '1 min'"}
    await insert(upstream, "c", **{**given, **report, **claim})
    report_found = await diagnose(upstream)
    assert [finding.ids for finding in of_kind(report_found, RUNS_LONG)] == [("r",)]
    assert [finding.ids for finding in of_kind(report_found, BEHIND_BUSY)] == [("c",)]


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
