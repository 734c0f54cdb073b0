"""The costs of the story beside a list: bytes at rest and for a step, the time of keys, and that of the database."""

from __future__ import annotations

import asyncio
import statistics
import time

import asyncpg
import pytest
from old_tasks import fill
from pty_console import PtyConsole, percentile
from test_numbers import SLOW, best_latencies, told

from horsies.operations.why import why_pending
from horsies.views import task_detail
from horsies.views.reading import READER_SETTINGS

pytestmark = pytest.mark.bench

SIZE = {"columns": 200, "rows": 60}
STORY = ("LIVE", "FOLLOW", "timeline", "links")
STEPS = 8
BIG = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at, started_at, claimed_at, args)
SELECT 'big-' || n, 'shop.big', 'mail', 'COMPLETED', now(), now(), now(),
       '["' || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 160000) i) || '"]'
  FROM generate_series(1, 3) n
"""


async def test_a_step_sends_the_differences_of_two_stories_and_rest_only_the_clock(quiet: dict[str, str]) -> None:
    """On a link of 30 kB/s."""
    with PtyConsole(quiet, rate=SLOW, **SIZE) as console:
        await asyncio.to_thread(console.until, *STORY)
        await asyncio.to_thread(console.pass_time, 1.0)
        idle = await asyncio.to_thread(console.pass_time, 3.0) / 3
        steps = []
        for _ in range(STEPS):
            console.type("j")
            steps.append(await asyncio.to_thread(console.pass_time, 0.4))
    told("idle, with a story", f"{idle:.0f} B/s", "< 200 B/s")
    told("a step and its story, median", f"{statistics.median(steps):.0f} B", "< 3 000 B")
    assert idle < 200
    assert statistics.median(steps) < 3_000


@pytest.mark.alone
async def test_keys_do_not_wait_for_stories_on_a_slow_link(quiet: dict[str, str]) -> None:
    with PtyConsole(quiet, rate=SLOW, **SIZE) as console:
        await asyncio.to_thread(console.until, *STORY)
        await asyncio.to_thread(console.pass_time, 0.5)
        found = await asyncio.to_thread(best_latencies, console, 0.05)
    told("key → paint beside a story, p99", f"{percentile(found, 0.99) * 1000:.0f} ms", "< 50 ms")
    assert percentile(found, 0.99) < 0.05


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
