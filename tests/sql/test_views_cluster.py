"""Workers and queues: liveness by the database's clock, tasks in flight, tasks waiting."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
from view_steps import insert

from horsies.cli.cluster.lists import _queue_lines, _status_lines
from horsies.display.terminal import Screen
from horsies.findings.diagnose import diagnose
from horsies.views import Count, Liveness, QueueRow, WorkerRow, cluster_status, queue_rows, worker_rows

if TYPE_CHECKING:
    pass


async def snapshot(conn: asyncpg.Connection, worker_id: str, ago_s: float, **columns: str) -> None:
    given = {
        "worker_id": f"'{worker_id}'", "snapshot_at": f"now() - {ago_s} * interval '1 s'", "hostname": "'web-1'",
        "pid": "7", "processes": "8", "max_claim_batch": "8", "max_claim_per_worker": "8", "queues": "'{default}'",
        "worker_started_at": "now() - interval '1 h'", **columns,
    }  # fmt: skip
    await conn.execute(f"INSERT INTO horsies_worker_states ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def workers(conn: asyncpg.Connection) -> dict[str, WorkerRow]:
    return {row.id: row for row in await worker_rows(conn)}


async def queues(conn: asyncpg.Connection) -> dict[str, QueueRow]:
    return {row.name: row for row in await queue_rows(conn)}


async def test_liveness_is_judged_by_the_newest_snapshot_of_each(conn: asyncpg.Connection) -> None:
    for worker_id, ago_s in {"a": 3, "b": 20, "c": 40, "d": 7200}.items():
        await snapshot(conn, worker_id, ago_s + 100)
        await snapshot(conn, worker_id, ago_s, tasks_running="3", cpu_percent="12.5", queue_priorities="'{\"a\": 1}'")
    found = await workers(conn)
    assert {row.id: row.liveness for row in found.values()} == {
        "a": Liveness.ALIVE,
        "b": Liveness.LATE,
        "c": Liveness.LOST,
    }
    row = found["a"]
    assert (row.seen_by, round(row.silent_s)) == ("snapshot", 3)
    assert row.snapshot is not None
    assert (row.snapshot.running, row.snapshot.cpu_percent, row.snapshot.queues) == (3, 12.5, ("default",))
    assert (row.snapshot.queue_priorities, row.snapshot.queue_max_concurrency) == ({"a": 1}, {})
    assert [row.id for row in await worker_rows(conn, gone_within=None)] == ["a", "b", "c", "d"]
    assert [row.id for row in await worker_rows(conn, gone_within=timedelta(seconds=30))] == ["a", "b"]


async def test_one_that_is_gone_is_shown_as_long_as_it_holds_something(conn: asyncpg.Connection) -> None:
    await snapshot(conn, "old", 7200)
    held = {"claimed_by_worker_id": "'old'", "claimed_at": "now() - interval '2 h'"}
    await insert(conn, "r", status="'RUNNING'", started_at="now() - interval '2 h'", **held)
    await insert(conn, "c", status="'CLAIMED'", claimed="true", **held)
    await insert(conn, "over", status="'COMPLETED'", completed_at="now()", **held)
    row = (await workers(conn))["old"]
    assert (row.liveness, row.running, row.claimed) == (Liveness.LOST, 1, 1)


async def test_one_whose_snapshots_are_late_lives_while_it_beats(conn: asyncpg.Connection) -> None:
    await snapshot(conn, "busy", 300)
    await insert(
        conn, "r", status="'RUNNING'", claimed_by_worker_id="'busy'", claimed_at="now() - interval '200 s'",
        started_at="now() - interval '200 s'",
    )  # fmt: skip
    assert (await workers(conn))["busy"].liveness is Liveness.LOST
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " VALUES ('r', 'busy:1', 'runner', now() - interval '4 s')"
    )
    row = (await workers(conn))["busy"]
    assert (row.liveness, row.seen_by, round(row.silent_s)) == (Liveness.ALIVE, "beat", 4)


async def test_one_that_has_told_nothing_is_known_by_what_it_holds(conn: asyncpg.Connection) -> None:
    await insert(conn, "c", status="'CLAIMED'", claimed="true", claimed_by_worker_id="'mute'", claimed_at="now()")
    row = (await workers(conn))["mute"]
    assert (row.snapshot, row.seen_by, row.liveness) == (None, "claim", Liveness.ALIVE)


async def test_one_that_claims_nothing_more_is_draining_by_order_or_by_its_own_word(conn: asyncpg.Connection) -> None:
    await snapshot(conn, "ordered", 1)
    await snapshot(conn, "stopping", 1, draining="true")
    await snapshot(conn, "dead", 100, draining="true", tasks_running="0", tasks_claimed="0")
    await conn.execute(
        "INSERT INTO horsies_worker_orders (worker_id, draining_since, ordered_by, reason)"
        " VALUES ('ordered', now(), 'ops@bastion', 'deploy')"
    )
    found = await workers(conn)
    assert found["ordered"].liveness is found["stopping"].liveness is Liveness.DRAINING
    assert (found["ordered"].draining_by, found["ordered"].draining_reason) == ("ops@bastion", "deploy")
    assert found["stopping"].draining_since is None
    assert found["dead"].liveness is Liveness.STOPPED


async def test_one_that_has_said_that_it_stops_is_not_late_unless_it_holds_something(conn: asyncpg.Connection) -> None:
    for name in ("stopped", "stuck"):
        await snapshot(conn, name, 20, draining="true")
    await insert(
        conn, "r", status="'RUNNING'", claimed_by_worker_id="'stuck'", claimed_at="now() - interval '200 s'",
        started_at="now() - interval '200 s'",
    )  # fmt: skip
    found = await workers(conn)
    assert (found["stopped"].liveness, found["stuck"].liveness) == (Liveness.DRAINING, Liveness.LATE)


async def test_a_queue_tells_what_is_due_what_is_later_and_since_when(conn: asyncpg.Connection) -> None:
    for number, (ago_s, priority) in enumerate([(5, 1), (90, 50), (30, 50), (-60, 1), (-60, 100)]):
        await insert(
            conn, f"p{number}", queue_name="'mail'", enqueued_at=f"now() - {ago_s} * interval '1 s'",
            priority=str(priority),
        )  # fmt: skip
    await insert(conn, "r", queue_name="'mail'", status="'RUNNING'")
    await insert(conn, "c", queue_name="'bulk'", status="'CLAIMED'")
    await insert(conn, "x", queue_name="'gone'", status="'COMPLETED'")
    found = await queues(conn)
    assert set(found) == {"mail", "bulk"}
    mail = found["mail"]
    assert (mail.due, mail.later, mail.running, mail.claimed) == (Count(3), Count(2), 1, 0)
    assert mail.oldest_due_at == await conn.fetchval("SELECT enqueued_at FROM horsies_tasks WHERE id = 'p1'")
    # A claimed task has not started, and waits as well.
    claimed_at = await conn.fetchval("SELECT enqueued_at FROM horsies_tasks WHERE id = 'c'")
    assert (found["bulk"].claimed, found["bulk"].due, found["bulk"].oldest_due_at) == (1, Count(0), claimed_at)


async def test_a_queue_without_tasks_is_shown_when_it_is_served_or_paused(conn: asyncpg.Connection) -> None:
    caps = {"queues": "'{pay,mail}'", "queue_priorities": "'{\"pay\": 1}'"}
    await snapshot(conn, "old", 10, queue_max_concurrency="'{\"pay\": 5}'", **caps)
    await snapshot(conn, "new", 2, queue_max_concurrency="'{\"pay\": 10}'", **caps)
    await snapshot(conn, "dead", 100, queues="'{forgotten}'")
    await conn.execute(
        "INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by, reason)"
        " VALUES ('bulk', now(), 'ops@bastion', 'disk full'), ('resumed', NULL, NULL, NULL)"
    )
    found = await queues(conn)
    assert set(found) == {"bulk", "mail", "pay"}
    assert (found["pay"].workers, found["pay"].cap, found["pay"].priority) == (2, 10, 1)
    assert (found["mail"].workers, found["mail"].cap) == (2, None)
    assert (found["bulk"].workers, found["bulk"].paused_by, found["bulk"].paused_reason) == (
        0,
        "ops@bastion",
        "disk full",
    )


async def test_the_status_sums_up_what_ended_lately_and_what_needs_an_operator(conn: asyncpg.Connection) -> None:
    await snapshot(conn, "w", 1)
    await insert(conn, "ok", status="'COMPLETED'", completed_at="now() - interval '1 min'")
    await insert(conn, "old", status="'COMPLETED'", completed_at="now() - interval '10 min'")
    await insert(conn, "no", status="'FAILED'", failed_at="now() - interval '1 min'", error_code="'TIMEOUT'")
    await insert(conn, "late", status="'EXPIRED'", failed_at="now() - interval '1 min'")
    await insert(conn, "cut", status="'FAILED'", failed_at="now() - interval '1 d'", error_code="'TASK_INTERRUPTED'")
    status = await cluster_status(conn)
    assert (status.completed, status.failed, status.other) == (Count(1), Count(1), Count(1))
    assert (status.interrupted, status.in_table) == (Count(1), None)
    assert [row.id for row in status.workers] == ["w"]
    assert [row.name for row in status.queues] == ["default"]
    assert status.window == timedelta(minutes=5)


async def test_what_ended_before_the_bound_is_not_taken_for_counted(conn: asyncpg.Connection) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at, failed_at)"
        " SELECT 't' || n, 'x', 'mail', CASE n % 100 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END,"
        "        CASE n % 100 WHEN 0 THEN NULL ELSE at END, CASE n % 100 WHEN 0 THEN at END"
        "   FROM generate_series(1, 20500) AS n CROSS JOIN LATERAL (SELECT now() - n * interval '10 ms' AS at) AS ended"
    )
    status = await cluster_status(conn)
    edge = await conn.fetchval("SELECT completed_at FROM horsies_tasks WHERE id = 't19999'")
    since = await conn.fetchval("SELECT failed_at FROM horsies_tasks WHERE id = 't20000'")
    assert edge > since == status.counted_since
    line = next(line for line in _status_lines("db", status, await diagnose(conn), Screen()) if "completed" in line)
    assert line == (
        f"in the last 5m00s, counted back to {since:%H:%M:%S}Z: at least 19,800 completed, at least 200 failed,"
        " at least 0 cancelled or expired"
    )
    await conn.execute("DELETE FROM horsies_tasks WHERE id > 't19'")
    exact = await cluster_status(conn)
    assert exact.counted_since is None
    assert not exact.completed.at_least


async def test_a_queue_whose_count_stopped_says_what_the_plus_means(conn: asyncpg.Connection) -> None:
    await insert(conn, "waits")
    (queue,) = await queue_rows(conn)
    now = await conn.fetchval("SELECT now()")
    lines = _queue_lines([replace(queue, due=Count(50_001, at_least=True))], now, Screen())
    assert "50,001+" in lines[1]
    assert lines[-1].startswith("+: at least so many; counting stops at about 50,000 tasks")
    assert len(_queue_lines([queue], now, Screen())) == 2
