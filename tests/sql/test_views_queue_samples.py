"""How many tasks waited is stored every ten seconds: charts and alerts are the same whenever a console was opened."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg

from horsies.store.statements import statement
from horsies.store.worker_states import MOST_SAMPLED, sample_queues
from horsies.views import Buckets, growing_since, task_series

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
    assert not [step for step in steps(plan) if step.get("Relation Name") == "horsies_tasks" and step["Actual Loops"]]


def steps(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(step for child in plan.get("Plans", ()) for step in steps(child))]


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
