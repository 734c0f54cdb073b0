"""The bytes that the activity screen sends, idle and for each step of the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import best_latencies, told

pytestmark = pytest.mark.bench

NIGHT = """
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome, os_user, os_host,
                                      reason)
SELECT gen_random_uuid(), now() - n * interval '9 min', 'requeue', 'task', 't-' || n, 'applied', 'ops', 'bastion',
       'again'
  FROM generate_series(1, 60) n;
RESET session_replication_role;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)
SELECT 'i-' || n, 'shop.report_' || n, 'reports', 'FAILED', 'TIMEOUT', now() - n * interval '3 min'
  FROM generate_series(1, 200) n;
"""


@asynccontextmanager
async def after_a_night(database: str, environ: dict[str, str]) -> AsyncIterator[PtyConsole]:
    connection = await asyncpg.connect(database)
    await connection.execute(NIGHT)
    await connection.close()
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, screen="activity") as console:
        await asyncio.to_thread(console.until, "LIVE", "60 operations", "200 changes")
        yield console


async def test_a_step_sends_the_story_of_the_next_line_and_rest_only_the_clock(
    database: str, environ: dict[str, str]
) -> None:
    async with after_a_night(database, environ) as console:
        await asyncio.to_thread(console.pass_time, 1.0)
        idle = await asyncio.to_thread(console.pass_time, 4.0) / 4
        before = console.received
        await asyncio.to_thread(console.key_to_paint, "j", 1)
        await asyncio.to_thread(console.pass_time, 0.3)
        step = console.received - before
    told("idle activity", f"{idle:.0f} B/s", "< 200 B/s")
    told("one step on activity", f"{step} B", "< 3 000 B")
    assert idle < 200
    assert step < 3_000


@pytest.mark.alone
async def test_a_key_in_the_list_is_painted_at_once(database: str, environ: dict[str, str]) -> None:
    async with after_a_night(database, environ) as console:
        await asyncio.to_thread(console.key_to_paint, "j", 1)  # the first screen may still be on its way
        found = await asyncio.to_thread(best_latencies, console, 0.05)
    told("activity, key → paint, p99", f"{percentile(found, 0.99) * 1000:.0f} ms", "< 50 ms")
    assert percentile(found, 0.99) < 0.05
