"""Workers and queues: liveness by the database's clock, tasks in flight, tasks waiting, samples of queues."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from plan_steps import nodes
from view_steps import every_id, insert, snapshot

from horsies.cli.cluster.lists import _queue_lines, _status_lines
from horsies.display.terminal import Screen
from horsies.findings.diagnose import diagnose
from horsies.store.statements import statement
from horsies.store.worker_states import MOST_SAMPLED, sample_queues
from horsies.views import (
    LATELY,
    Buckets,
    Count,
    Liveness,
    QueueRow,
    WorkerRow,
    cluster_status,
    failures,
    growing_since,
    queue_rates,
    queue_rows,
    task_series,
    worker_rows,
)
from horsies_tui.health.figure_filters import NUMBERS, rows_of_error, rows_of_number, rows_that_ended, rows_that_failed


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


QUEUE = 'odd name, "mail"'


@pytest.fixture
async def rows(conn: asyncpg.Connection) -> None:
    """A task of each kind in one queue, and the same in another."""
    for number, queue in enumerate((QUEUE, "other")):

        async def add(task_id: str, **columns: str) -> None:
            long_ago = dict.fromkeys(("created_at", "enqueued_at"), "now() - interval '1 h'")
            given = {"queue_name": f"'{queue}'", **long_ago, **columns}  # noqa: B023
            await insert(conn, f"{task_id}{number}", **given)  # noqa: B023

        await add("due", enqueued_at="now() - interval '9 min'")
        await add("new", enqueued_at="now() - interval '2 s'", created_at="now() - interval '2 s'")
        await add("later", enqueued_at="now() + interval '9 min'")
        await add("retry", enqueued_at="now() + interval '9 min'", next_retry_at="now() + interval '9 min'")
        await add("claimed", status="'CLAIMED'", claimed="true")
        await add("running", status="'RUNNING'", started_at="now()")
        await add("done", status="'COMPLETED'", completed_at="now() - interval '30 s'")
        await add("failed", status="'FAILED'", failed_at="now() - interval '2 min'", error_code="'TIMEOUT'")
        await add("bare", status="'FAILED'", failed_at="now() - interval '2 min'")
        await add("early", status="'FAILED'", failed_at="now() - interval '11 min'", error_code="'TIMEOUT'")
        await add("old", status="'COMPLETED'", completed_at="now() - interval '40 min'")


SHOWN = {
    "pending": {"due", "new", "later", "retry"},
    "due": {"due", "new"},
    "later": {"later", "retry"},
    "claimed": {"claimed"},
    "running": {"running"},
    "cap": {"running"},
    "oldest": {"due", "new"},
    "in": {"new"},
    "out": {"done", "failed", "bare"},
    "in1m": {"new"},
    "out1m": {"done"},
    "drains": {"due", "new"},
}


@pytest.mark.usefixtures("rows")
async def test_each_number_of_a_queue_is_that_of_the_rows_that_it_opens(conn: asyncpg.Connection) -> None:
    assert set(SHOWN) == set(NUMBERS)
    now = await conn.fetchval("SELECT now()")
    for column, names in SHOWN.items():
        found = await every_id(conn, rows_of_number(column, QUEUE, now))
        assert set(found) == {f"{name}0" for name in names}, column
        everywhere = await every_id(conn, rows_of_number(column, "", now))
        assert set(everywhere) == {f"{name}{number}" for name in names for number in (0, 1)}, column
    row = next(row for row in await queue_rows(conn) if row.name == QUEUE)
    rate = (await queue_rates(conn))[QUEUE]
    assert (row.due.number, row.later.number, row.claimed, row.running) == (2, 2, 1, 1)
    assert (round(rate.in_per_s * 300), round(rate.out_per_s * 300)) == (1, 3)


@pytest.mark.usefixtures("rows")
async def test_failures_are_those_of_the_rows_that_they_open(conn: asyncpg.Connection) -> None:
    now = await conn.fetchval("SELECT now()")
    for kind in await failures(conn):
        found = await every_id(conn, rows_of_error(kind.error_code, now - LATELY))
        assert len(found) == kind.lately == 2
    assert set(await every_id(conn, rows_that_failed(now - LATELY))) == {"failed0", "bare0", "failed1", "bare1"}
    assert len(await every_id(conn, rows_that_ended(now - timedelta(minutes=30), now))) == 8


TASKS = """
INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, status, enqueued_at)
SELECT queue || n, 'x', queue, now() - interval '1 h',
       CASE WHEN n % 10 = 0 THEN 'CLAIMED' WHEN n % 10 = 1 THEN 'RUNNING' ELSE 'PENDING' END,
       CASE WHEN n % 10 = 2 THEN now() + interval '1 h' ELSE now() - interval '1 min' END
  FROM unnest('{mail,pay}'::text[]) AS queue, generate_series(1, 30) n
"""


async def samples(conn: asyncpg.Connection) -> dict[str, int]:
    return dict(await conn.fetch("SELECT queue_name, waiting FROM horsies_queue_samples"))


async def put(conn: asyncpg.Connection, queue: str, *waiting: int) -> None:
    """Samples ten seconds apart, the last one of now; the sum is that of this queue."""
    for name in (queue, ""):
        await conn.executemany(
            "INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)"
            " VALUES (to_timestamp((floor(extract(epoch FROM now()) / 10) - $1::integer) * 10), $2, $3)",
            [(ago, name, number) for ago, number in enumerate(reversed(waiting)) if number or not name],
        )


async def test_due_and_claimed_tasks_wait_in_their_queues_and_together(connection: asyncpg.Connection) -> None:
    await sample_queues(connection)
    assert await samples(connection) == {"": 0}
    await connection.execute("DELETE FROM horsies_queue_samples")
    await connection.execute(TASKS)
    await sample_queues(connection)
    assert await samples(connection) == {"mail": 24, "pay": 24, "": 48}


async def test_of_many_workers_one_stores_and_the_others_read_no_task(
    connection: asyncpg.Connection, database: str
) -> None:
    await connection.execute(TASKS)
    workers = [await asyncpg.connect(database) for _ in range(6)]
    await asyncio.gather(*(sample_queues(each) for each in workers))
    for each in workers:
        await each.close()
    moments = await connection.fetchval("SELECT count(DISTINCT sampled_at) FROM horsies_queue_samples")
    assert moments <= 2  # ten seconds may have ended between two of them
    assert await connection.fetchval("SELECT count(*) FROM horsies_queue_samples") == 3 * moments
    await connection.execute(
        "INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)"
        " SELECT to_timestamp((floor(extract(epoch FROM now()) / 10) + n) * 10), '', 0 FROM generate_series(0, 6) n"
        "     ON CONFLICT DO NOTHING"
    )
    text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement('horsies.store.worker_states', 'sample_queues')}"
    plan = json.loads(await connection.fetchval(text.replace("$1", str(MOST_SAMPLED))))[0]["Plan"]
    assert not [step for step in nodes(plan) if step.get("Relation Name") == "horsies_tasks" and step["Actual Loops"]]


async def test_the_chart_of_waiting_tasks_stays_when_their_rows_change(connection: asyncpg.Connection) -> None:
    await connection.execute(TASKS)
    await put(connection, "mail", 0, 700, 1_377, 40)
    newest = await connection.fetchval("SELECT max(sampled_at) FROM horsies_queue_samples")
    buckets = Buckets.until(newest, timedelta(minutes=1), timedelta(seconds=10))
    before = [point.waiting for point in await task_series(connection, buckets)]
    assert [number for number in before if number is not None][-3:] == [700, 1_377, 40]
    await connection.execute("UPDATE horsies_tasks SET enqueued_at = now(), status = 'PENDING'")
    assert [point.waiting for point in await task_series(connection, buckets)][-3:] == before[-3:]


async def test_a_queue_grows_since_it_had_the_fewest_in_an_hour(connection: asyncpg.Connection) -> None:
    await put(connection, "mail", 30, 9, 12, 9, 40, 90)
    found = await growing_since(connection, ["mail", "pay"])
    newest = await connection.fetchval("SELECT max(sampled_at) FROM horsies_queue_samples")
    assert newest - found["mail"] == timedelta(seconds=20)
    assert newest - found["pay"] == timedelta(0)
    assert await growing_since(connection, []) == {}
    await connection.execute("DELETE FROM horsies_queue_samples")
    assert await growing_since(connection, ["mail"]) == {}
