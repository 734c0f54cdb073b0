"""Series and rates over time: the value of each bucket, gaps, and the bound of each read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from statements import statement
from view_steps import insert, reader, snapshot

from horsies.views import (
    Buckets,
    Clock,
    cluster_series,
    failures,
    queue_rates,
    task_series,
    worker_clocks,
    worker_series,
)

STEP = timedelta(minutes=1)

# An hour of 40 tasks a second would be 144,000; they are put into the last one, the others into the week before.
FILL = """
SET session_replication_role = replica;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, started_at, completed_at,
                           failed_at, error_code)
SELECT 't' || n, 'shop.task', 'q' || n % 6, status, at, at, at + interval '1 s',
       CASE status WHEN 'COMPLETED' THEN at + interval '3 s' END,
       CASE status WHEN 'FAILED' THEN at + interval '3 s' END, CASE status WHEN 'FAILED' THEN 'CODE_' || n % 7 END
  FROM generate_series(1, 150000) n
 CROSS JOIN LATERAL (SELECT now() - n * CASE WHEN n < 100000 THEN interval '36 ms' ELSE interval '4 s' END AS at,
                            CASE WHEN n % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status) row;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at)
SELECT 'p' || n, 'shop.task', 'q' || n % 6, 'PENDING', now() - interval '5 min', now() - interval '1 min'
  FROM generate_series(1, 60000) n;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)
SELECT task.id, attempt, CASE WHEN status = 'COMPLETED' AND attempt = 2 THEN 'COMPLETED' ELSE 'FAILED' END, attempt = 1,
       started_at, started_at + interval '2 s' * attempt / 2, 'CODE_' || length(task.id)
  FROM horsies_tasks task CROSS JOIN generate_series(1, 2) attempt WHERE status IN ('COMPLETED', 'FAILED');
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at, tasks_running)
SELECT 'web-' || w, at + w * interval '9 ms', 'host', 1, 8, 8, 8, '{q0}', now(), 4
  FROM generate_series(0, 199) w
 CROSS JOIN (SELECT now() - n * interval '12 min' AS at FROM generate_series(1, 840) n
             UNION ALL SELECT now() - n * interval '5 s' FROM generate_series(1, 120) n) moments;
"""

READ = """
SELECT (SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_user_tables
         WHERE relname IN ('horsies_tasks', 'horsies_worker_states'))::bigint AS whole,
       (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint AS entries
"""


async def buckets(conn: asyncpg.Connection, count: int = 5) -> Buckets:
    """Minutes, the newest of which is over, so that rows stay in their buckets."""
    now = await conn.fetchval("SELECT now()")
    whole = Buckets.until(now - STEP, count * STEP, STEP)
    assert whole.end <= now
    return whole


async def ended(
    conn: asyncpg.Connection, task_id: str, at: datetime, status: str = "COMPLETED", **columns: str
) -> None:
    """Each waited 1 s and ran 2 s."""
    when = f"'{at.isoformat()}'::timestamptz"
    end = "completed_at" if status == "COMPLETED" else "failed_at"
    given = {
        "status": f"'{status}'", "created_at": f"{when} - interval '3 s'", "enqueued_at": f"{when} - interval '3 s'",
        "started_at": f"{when} - interval '2 s'", end: when, **columns,
    }  # fmt: skip
    await insert(conn, task_id, **given)


async def attempt(conn: asyncpg.Connection, task_id: str, at: str, *, number: int = 1, **columns: str) -> None:
    """An attempt that failed after 2 s."""
    given = {
        "task_id": f"'{task_id}'", "attempt": str(number), "outcome": "'FAILED'",
        "started_at": f"{at} - interval '2 s'", "finished_at": at, "error_code": "'GATEWAY_DOWN'", **columns,
    }  # fmt: skip
    await conn.execute(f"INSERT INTO horsies_task_attempts ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def snapshot_at(conn: asyncpg.Connection, worker_id: str, at: datetime, **columns: str) -> None:
    given = {"worker_started_at": "now()", "snapshot_at": f"'{at.isoformat()}'", **columns}
    await snapshot(conn, worker_id, **given)


async def test_a_point_tells_what_ended_in_its_bucket_and_how_long_that_took(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn)
    second = whole.starts[1]
    for number in range(6):
        await ended(conn, f"c{number}", second + timedelta(seconds=5 + number))
    await ended(conn, "f", second + timedelta(seconds=30), "FAILED")
    await ended(conn, "x", second + timedelta(seconds=31), "EXPIRED", started_at="NULL")
    await ended(conn, "last", whole.starts[4])
    points = await task_series(conn, whole)
    assert [point.start for point in points] == list(whole.starts)
    point = points[1]
    assert (point.completed, point.failed, point.other, point.partly) == (6, 1, 1, False)
    assert point.ended_per_s == pytest.approx(8 / 60)
    assert (point.wait_p50, point.wait_p95, point.run_p50, point.run_p95) == (1, 1, 2, 2)
    assert [point.completed for point in points[2:]] == [0, 0, 1]
    assert points[2].run_p50 is None


async def test_tasks_that_never_began_have_not_waited(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn)
    at = whole.starts[1] + timedelta(seconds=5)
    await ended(conn, "c", at)
    for number in range(4):
        await ended(conn, f"x{number}", at, "EXPIRED", started_at="NULL")
    points = await task_series(conn, whole)
    assert (points[1].other, points[1].wait_p50, points[1].wait_p95) == (4, 1, 1)


async def test_attempts_are_counted_when_they_failed_whatever_became_of_their_tasks(conn: asyncpg.Connection) -> None:
    """A storm of 249 retries failed nothing per second, and a surge was gone from the charts when it was requeued."""
    whole = await buckets(conn)
    when = [f"'{start + timedelta(seconds=5)}'::timestamptz" for start in whole.starts]
    for number in range(3):
        await insert(conn, f"t{number}")
        await attempt(conn, f"t{number}", when[1], will_retry="true")
        await attempt(conn, f"t{number}", when[2], number=2)
        await attempt(conn, f"t{number}", when[3], number=3, outcome="'COMPLETED'", error_code="NULL")
    await insert(conn, "by-hand", status="'FAILED'", failed_at=when[3], error_code="'OPERATOR_FAILED'")
    await attempt(conn, "by-hand", when[3], error_code="'OPERATOR_FAILED'", outcome="'WORKER_FAILURE'")
    await insert(conn, "stopped")
    await attempt(
        conn, "stopped", when[3], error_code="'TASK_INTERRUPTED'", outcome="'WORKER_FAILURE'", will_retry="true"
    )
    await insert(conn, "x", status="'EXPIRED'", failed_at=when[2])
    points = await task_series(conn, whole)
    counts = [(point.completed, point.failed, point.other) for point in points]
    assert counts == [(None, None, None), (0, 3, 0), (0, 3, 1), (3, 0, 1), (0, 0, 0)]
    assert points[1].run_p50 == 2
    assert [(one.error_code, one.lately, one.retried) for one in await failures(conn)] == [("GATEWAY_DOWN", 6, 3)]
    # As before the engine kept attempts.
    await conn.execute("DELETE FROM horsies_task_attempts")
    await ended(conn, "old", whole.starts[2] + timedelta(seconds=30), "FAILED", error_code="'BAD'")
    assert (await task_series(conn, whole))[2].failed == 1


async def test_waits_are_those_of_the_attempts_whatever_became_of_their_tasks(conn: asyncpg.Connection) -> None:
    """A requeue took the wait of 70 s out of the chart, and put one of 0 s into it."""
    whole = await buckets(conn)
    when = [f"'{start + timedelta(seconds=5)}'::timestamptz" for start in whole.starts]
    for number in range(3):
        await insert(conn, f"t{number}")
        await attempt(conn, f"t{number}", when[1], waited_ms="70000")
        await attempt(conn, f"t{number}", when[3], number=2, outcome="'COMPLETED'", waited_ms=str(number * 250))
        # As a worker of version 15 stored it.
        await attempt(conn, f"t{number}", when[2], number=3)
        await conn.execute("UPDATE horsies_tasks SET status = 'COMPLETED', started_at = now(), completed_at = now()")
    points = await task_series(conn, whole)
    assert [(point.wait_p50, point.wait_p95) for point in points] == [
        *[(None, None), (70, 70), (None, None), (0.25, 0.5), (None, None)]
    ]


async def test_two_consoles_draw_the_same_past_whenever_they_were_opened(conn: asyncpg.Connection) -> None:
    """One read an hour at once, a small share of each minute; the other one minute after the other, in full."""
    whole = await buckets(conn, 60)
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status) VALUES ('t', 'shop.task', 'q', 'PENDING')"
    )
    await conn.execute(
        "INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, error_code)"
        " SELECT 't', n, CASE WHEN n % 3 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, at, at, 'BAD'"
        "   FROM generate_series(1, 3000) n"
        "  CROSS JOIN LATERAL (SELECT $1::timestamptz + LEAST(n, 2000) * interval '1 ms'"
        "                             + GREATEST(n - 2000, 0) * interval '50 ms' AS at) AS made",
        whole.starts[-2],
    )
    points = await task_series(conn, whole)
    assert points[-2:] == await task_series(conn, whole.newest(2))
    assert points[-2].partly
    # What is read of the 2,000 of the first 2 s does not stand for 30 s: that were 10,000.
    assert points[-2].failed == pytest.approx(1_000, rel=0.01)


async def test_before_the_first_end_that_is_known_there_is_a_gap_and_no_nought(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn)
    assert {point.completed for point in await task_series(conn, whole)} == {None}
    await ended(conn, "first", whole.starts[2] + timedelta(seconds=9))
    points = await task_series(conn, whole)
    assert [point.completed for point in points] == [None, None, 1, 0, 0]
    assert points[0].ended_per_s is None


async def test_a_task_does_not_wait_before_it_is_due(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn)
    at = whole.starts[3] + timedelta(seconds=30)
    await ended(conn, "planned", at, created_at="now() - interval '3 days'")
    await ended(
        conn, "early", at, enqueued_at=f"'{(at + timedelta(hours=1)).isoformat()}'", started_at=f"'{at.isoformat()}'"
    )
    await insert(conn, "future", enqueued_at="now() + interval '1 h'", created_at="now() - interval '1 h'")
    points = await task_series(conn, whole)
    assert (points[3].wait_p50, points[3].wait_p95) == (0, 1)
    assert {point.waiting for point in points if point.waiting is not None} == {0}


async def test_how_many_waited_is_told_of_every_moment_of_the_past(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn)
    first, step = whole.first, timedelta(seconds=60)
    moment = "'{}'::timestamptz".format
    await ended(conn, "old", first + timedelta(seconds=1))
    # Due before the window, started in the third bucket; due in the second, never started; due in the second, running.
    await ended(conn, "a", first + 3 * step, enqueued_at=moment(first - step), started_at=moment(first + 2.5 * step))
    await insert(conn, "b", enqueued_at=moment(first + 1.5 * step))
    await insert(
        conn, "c", status="'RUNNING'", enqueued_at=moment(first + 1.5 * step), started_at=moment(first + 3.5 * step)
    )
    points = await task_series(conn, whole)
    assert [point.waiting for point in points] == [1, 3, 2, 1, 1]
    assert [point.waiting for point in await task_series(conn, whole.newest(2))] == [1, 1]


async def test_where_more_ended_than_is_read_the_rate_is_that_of_a_part(
    conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await buckets(conn, 2)
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, enqueued_at, started_at, completed_at)"
        " SELECT 't' || n, 'shop.task', 'q', 'COMPLETED', at, at, at FROM generate_series(0, 5999) n"
        " CROSS JOIN LATERAL (SELECT $1::timestamptz + n * interval '10 ms' AS at) AS made",
        whole.first,
    )
    monkeypatch.setattr("horsies.views.flow.MOST_OF_A_SLICE", 100)
    point = (await task_series(conn, whole))[0]
    assert point.partly
    assert point.completed == pytest.approx(6000, rel=0.02)


async def test_a_worker_is_told_by_its_last_snapshot_in_each_bucket_and_silence_is_a_gap(
    conn: asyncpg.Connection,
) -> None:
    whole = await buckets(conn, 4)
    first, _, third, _ = whole.starts
    await snapshot_at(conn, "w", first + timedelta(seconds=5), tasks_running="1", cpu_percent="10")
    await snapshot_at(
        conn, "w", first + timedelta(seconds=50), tasks_running="3", memory_usage_mb="99", children_memory_mb="7"
    )
    await snapshot_at(conn, "w", third, tasks_running="2", tasks_claimed="4")
    await snapshot_at(conn, "other", whole.starts[1], tasks_running="8")
    points = await worker_series(conn, "w", whole)
    assert [point.start for point in points] == list(whole.starts)
    assert [point.running for point in points] == [3, None, 2, None]
    assert (points[0].at, points[0].memory_mb, points[0].children_memory_mb, points[0].cpu_percent) == (
        first + timedelta(seconds=50), 99, 7, None,
    )  # fmt: skip
    assert (points[2].claimed, points[2].processes, points[3].at) == (4, 8, None)


async def test_all_workers_together_are_as_busy_as_their_places_are_taken(conn: asyncpg.Connection) -> None:
    whole = await buckets(conn, 3)
    for start, running in zip(whole.starts[:2], (2, 6), strict=True):
        for worker_id in ("a", "b"):
            await snapshot_at(conn, worker_id, start + timedelta(seconds=57), tasks_running=str(running))
            await snapshot_at(conn, worker_id, start + timedelta(seconds=20), tasks_running="8")
    points = await cluster_series(conn, whole)
    assert [(point.workers, point.busy) for point in points] == [(2, 0.25), (2, 0.75), (None, None)]


async def test_rates_are_those_of_the_last_minutes_and_of_as_long_as_there_was_anything(
    conn: asyncpg.Connection,
) -> None:
    now = await conn.fetchval("SELECT now()")
    for number in range(30):
        await ended(conn, f"m{number}", now - timedelta(seconds=10 + number), queue_name="'mail'")
    await insert(conn, "new", queue_name="'pay'", created_at="now() - interval '100 s'")
    rates = await queue_rates(conn)
    assert rates["mail"].out_per_s == pytest.approx(0.3, rel=0.05)
    pay = rates["pay"]
    assert (pay.in_per_s, pay.out_per_s) == (pytest.approx(0.01, rel=0.05), 0)
    await ended(conn, "old", now - timedelta(hours=2))
    assert (await queue_rates(conn))["mail"].out_per_s == pytest.approx(0.1, rel=0.05)


async def test_what_is_retried_requeued_or_due_later_arrives_when_it_is_due_and_a_retried_attempt_leaves(
    conn: asyncpg.Connection,
) -> None:
    """A storm of retries was no movement at all: neither was its first attempt an end, nor its return an arrival."""
    long_ago = "now() - interval '2 h'"
    old = {"created_at": long_ago, "queue_name": "'mail'"}
    await insert(conn, "planned", **old, enqueued_at="now() - interval '90 s'")
    await insert(conn, "requeued", **old, enqueued_at="now() - interval '30 s'", status="'RUNNING'", started_at="now()")
    await insert(conn, "done", **old, enqueued_at="now() - interval '2 s'", status="'COMPLETED'", completed_at="now()")
    await insert(conn, "again", **old, enqueued_at="now() + interval '1 h'")
    await insert(conn, "later", queue_name="'mail'", enqueued_at="now() + interval '1 h'")
    for number, ago_s in ((1, 200), (2, 100), (3, 2)):
        await attempt(conn, "again", f"now() - interval '{ago_s} s'", number=number, will_retry="true")
    rate = (await queue_rates(conn))["mail"]
    # planned, requeued, done, and the second and third attempt of `again`; done, and three attempts.
    assert (round(rate.in_per_s * 300), round(rate.out_per_s * 300)) == (5, 4)
    assert rate.minute is not None
    assert rate.moment is not None
    assert [round(number * 60) for number in rate.minute[:2]] == [2, 2]
    assert [round(number * 5) for number in rate.moment[:2]] == [1, 2]


async def test_failures_of_late_are_set_against_what_is_usual(conn: asyncpg.Connection) -> None:
    now = await conn.fetchval("SELECT now()")
    for number in range(12):
        await ended(conn, f"n{number}", now - timedelta(seconds=number), "FAILED", error_code="'RATE_LIMITED'")
    for number in range(24):
        await ended(conn, f"o{number}", now - timedelta(minutes=11 + number), "FAILED", error_code="'TIMEOUT'")
    await ended(conn, "bare", now - timedelta(minutes=1), "FAILED")
    found = {kind.error_code: kind for kind in await failures(conn)}
    assert [(kind.lately, kind.usual) for kind in found.values()] == [(12, 0), (1, 0), (0, 2)]
    assert list(found) == ["RATE_LIMITED", None, "TIMEOUT"]


async def test_a_clock_that_is_apart_is_seen_by_the_start_of_its_worker(conn: asyncpg.Connection) -> None:
    now = await conn.fetchval("SELECT now()")
    long_ago, at = now - timedelta(days=6), now - timedelta(minutes=5)
    begun = "'{}'".format
    # The oldest rows may be deleted: the start of a worker seen first there is unknown, unless it is in the future.
    await snapshot_at(conn, "pruned", long_ago, worker_started_at=begun(long_ago - timedelta(days=1)))
    await snapshot_at(conn, "ahead", at, worker_started_at=begun(at + timedelta(seconds=12)))
    await snapshot_at(conn, "behind", at, worker_started_at=begun(at - timedelta(minutes=3)))
    await snapshot_at(conn, "dead", at, worker_started_at=begun(at + timedelta(hours=1)))
    for worker_id in ("pruned", "ahead", "behind"):
        await snapshot_at(conn, worker_id, now)
    assert await worker_clocks(conn) == (Clock("ahead", 12), Clock("behind", -180))


def test_buckets_have_edges_that_stay_where_they_are() -> None:
    noon = datetime(2026, 11, 18, 12, 0, 30, tzinfo=UTC)
    early, late = (Buckets.until(noon + timedelta(seconds=s), timedelta(minutes=5), STEP) for s in (0, 29))
    assert early == late
    assert (early.count, early.starts[-1], early.end) == (5, noon.replace(second=0), noon.replace(minute=1, second=0))
    assert (early.index(noon), early.index(early.end)) == (4, None)
    assert early.newest(2).starts == early.starts[3:]
    assert early.newest(99) == early


# The cost, with 210,000 tasks, 300,000 attempts and a week of 200 workers.


async def cost(conn: asyncpg.Connection, read: Callable[[], Awaitable[Any]]) -> tuple[int, int]:
    """Rows read by sequential scans, and index entries read."""
    counts = []
    for ask in (None, read):
        if ask is not None:
            await ask()
        await conn.execute("SELECT pg_stat_force_next_flush()")
        counts.append(await conn.fetchrow(READ))
    return counts[1]["whole"] - counts[0]["whole"], counts[1]["entries"] - counts[0]["entries"]


WINDOWS = ((timedelta(minutes=5), timedelta(seconds=10)), (timedelta(hours=24), timedelta(minutes=15)))


@pytest.mark.parametrize(("length", "step"), WINDOWS)
async def test_a_series_reads_a_bounded_part_of_what_there_is(
    full: asyncpg.Connection, length: timedelta, step: timedelta
) -> None:
    whole = Buckets.until(await full.fetchval("SELECT now()"), length, step)
    # 60,000 that ended and as many attempts, which are also counted, and 50,000 that wait; of workers 150 snapshots a
    # bucket; of one worker a probe a bucket.
    for read, most in (
        (lambda: task_series(full, whole), 320_000),
        (lambda: cluster_series(full, whole), 160 * whole.count),
        (lambda: worker_series(full, "web-7", whole), 2 * whole.count),
        (lambda: worker_series(full, "gone", whole), 2 * whole.count),
    ):
        seq, entries = await cost(full, read)
        assert (seq, entries <= most) == (0, True), entries


async def test_rates_failures_and_clocks_read_a_bounded_part(full: asyncpg.Connection) -> None:
    # 50,000 that wait, 10,000 that ended, 10,000 attempts, and of those that are retried the task and the one before.
    for read, most in ((queue_rates, 105_000), (failures, 10_500), (worker_clocks, 1_200)):
        seq, entries = await cost(full, lambda: read(full))  # noqa: B023
        assert (seq, entries <= most) == (0, True), f"{read.__name__}: {entries}"


async def test_a_worker_is_probed_by_its_own_index(full: asyncpg.Connection) -> None:
    now = await full.fetchval("SELECT now()")
    plan = await full.fetch(
        "EXPLAIN " + statement("view_worker_series"), "web-7", now - timedelta(hours=24), timedelta(minutes=15), 96
    )
    assert "ix_horsies_worker_states_worker_latest" in str(plan)
    assert "Sort" not in str(plan)


# A database made by upstream has its times without a zone, and not all of our columns.


async def test_a_database_made_by_upstream_has_series_too(empty_database: str) -> None:
    maker = await asyncpg.connect(empty_database)
    await maker.execute(Path(__file__).with_name("upstream_shape.sql").read_text("utf-8"))
    await maker.execute(
        "INSERT INTO horsies_worker_states SELECT (jsonb_populate_record(NULL::horsies_worker_states,"
        " to_jsonb(state) || jsonb_build_object('id', 1000 + n, 'worker_id', 'lively',"
        "                    'snapshot_at', now() AT TIME ZONE 'UTC' - n * interval '5 s'))).*"
        "  FROM (SELECT * FROM horsies_worker_states LIMIT 1) state CROSS JOIN generate_series(0, 3) n"
    )
    ended = await maker.fetchval(
        "UPDATE horsies_tasks SET completed_at = now() AT TIME ZONE 'UTC' - interval '1 min'"
        " WHERE id = (SELECT id FROM horsies_tasks WHERE status = 'COMPLETED' LIMIT 1) RETURNING id"
    )
    await maker.execute("DELETE FROM horsies_task_attempts WHERE task_id = $1 OR outcome = 'COMPLETED'", ended)
    await maker.close()
    assert ended is not None
    conn = await reader(empty_database)
    whole = Buckets.until(await conn.fetchval("SELECT now()"), timedelta(minutes=5), STEP)
    points = await task_series(conn, whole)
    assert sum(point.completed or 0 for point in points) == 1
    assert {point.start.tzinfo for point in points} == {UTC}
    told = [point for point in await worker_series(conn, "lively", whole) if point.at is not None]
    assert told
    assert {point.at.tzinfo for point in told if point.at is not None} == {UTC}
    assert any(point.workers for point in await cluster_series(conn, whole))
    assert await queue_rates(conn)
    await failures(conn)
    await worker_clocks(conn)
    await conn.close()
