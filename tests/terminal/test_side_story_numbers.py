"""The time that the story beside a list takes of the database."""

from __future__ import annotations

import statistics
import time

import asyncpg
import pytest
from old_tasks import fill
from test_screen_numbers import told

from horsies.findings.why import why_pending
from horsies.views import task_detail
from horsies.views.reading import READER_SETTINGS

BIG = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at, started_at, claimed_at, args)
SELECT 'big-' || n, 'shop.big', 'mail', 'COMPLETED', now(), now(), now(),
       '["' || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 160000) i) || '"]'
  FROM generate_series(1, 3) n
"""


@pytest.mark.bench
@pytest.mark.alone
async def test_a_step_takes_less_than_20_ms_of_the_database(database: str, connection: asyncpg.Connection) -> None:
    """Also for a task with 5 MB of arguments, a task that waits, and one that is gone."""
    await fill(connection, 5_000)
    await connection.execute("INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('w-1', 'shop.w', 'mail')")
    await connection.execute(BIG)
    await connection.execute("ANALYZE horsies_tasks")
    for name, value in READER_SETTINGS:
        await connection.execute(f"SET {name} = {value}")
    ended = [row["id"] for row in await connection.fetch("SELECT id FROM horsies_tasks WHERE id LIKE '0%' LIMIT 15")]
    for what, ids in {
        "ended": ended,
        "waits": ["w-1"] * 10,
        "5 MB": ["big-1", "big-2", "big-3"],
        "gone": ["no"],
    }.items():
        taken = []
        for task_id in ids:
            began = time.perf_counter()
            await task_detail(connection, task_id, exact=True)
            if what == "waits":
                await why_pending(connection, task_id)
            taken.append(time.perf_counter() - began)
        told(f"a story, {what}, median", f"{statistics.median(taken) * 1000:.1f} ms", "< 20 ms")
        assert statistics.median(taken) < 0.02
