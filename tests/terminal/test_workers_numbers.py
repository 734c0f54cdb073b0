"""The bytes that the workers screen sends: almost none when idle, and few with 500 workers that store snapshots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import KEYS, latencies, running, told

pytestmark = pytest.mark.bench

CREW = """
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   worker_started_at, tasks_running, cpu_percent, memory_usage_mb)
SELECT 'web-' || n % 50 || '-' || n || '-0a', 'web-' || n % 50, n, 8, 8, 8, '{mail}', now() - interval '1 d', n % 8,
       random() * 100, 100 + random() * 20
  FROM generate_series(1, 500) n;
"""
TELLING = """
DO $$
BEGIN
    FOR turn IN 0..100 LOOP
        INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,
                                           queues, worker_started_at, tasks_running, cpu_percent, memory_usage_mb)
        SELECT 'web-' || n % 50 || '-' || n || '-0a', 'web-' || n % 50, n, 8, 8, 8, '{mail}', now() - interval '1 d',
               n % 8, random() * 100, 100 + random() * 20
          FROM generate_series(turn % 50 * 10 + 1, turn % 50 * 10 + 10) n;
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""


THREE = """
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   worker_started_at, tasks_running, cpu_percent, memory_usage_mb)
SELECT 'web-' || n || '-77-0a', 'web-' || n, 77, 8, 8, 8, '{mail}',
       COALESCE((SELECT min(worker_started_at) FROM horsies_worker_states), now() - interval '3 hours'), 2, 12, 100
  FROM unnest($1::integer[]) n
"""
HELD = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, started_at)
SELECT 'held-' || n, 'shop.mail', 'mail', 'RUNNING', 'web-1-77-0a', now(), now() FROM generate_series(1, 2) n
"""
REST_S = 12


@pytest.mark.parametrize("many", [pytest.param(0, marks=pytest.mark.chaos), 3])
async def test_at_rest_it_sends_its_clock_and_little_else(
    database: str, connection: asyncpg.Connection, environ: dict[str, str], many: int
) -> None:
    """Three workers store unchanged snapshots in turns, so no bytes are allowed for changing numbers.

    How long they have been up, in minutes, changes a minute after the start. The age of the newest snapshot ticks each
    second, and those of the chosen worker's tasks every five. The title of the window, 90 bytes, is part of the start;
    on a busy machine it came later than two seconds.
    """
    if many:
        await connection.execute(THREE, [1, 2, 3])
        await connection.execute(HELD)
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, screen="workers") as console:
        await asyncio.to_thread(console.until, "LIVE", "3 alive" if many else "No worker was alive in the last hour")
        if many:  # the claims are newer than the first snapshots: from now on the snapshots are the evidence
            await connection.execute(THREE, [1, 2, 3])
        await asyncio.to_thread(console.until_so, lambda: "Healthy" in console.screen.title, "the verdict in the title")
        await asyncio.to_thread(console.pass_time, 2.0)
        before, began = console.received, time.perf_counter()
        for turn in range(REST_S * many // 5):
            await connection.execute(THREE, [turn % 3 + 1])
            await asyncio.to_thread(console.pass_time, 5 / many)
        if not many:
            await asyncio.to_thread(console.pass_time, REST_S)
        idle = (console.received - before) / (time.perf_counter() - began)
    told(f"an idle list of {many} workers", f"{idle:.0f} B/s", "< 200 B/s")
    assert idle < 200


@asynccontextmanager
async def crew_that_tells(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> AsyncIterator[PtyConsole]:
    """The screen with 500 workers, of which 100 store a snapshot each second."""
    await connection.execute(CREW)
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, "--screen", "workers") as console:
        await asyncio.to_thread(console.until, "LIVE", "500 workers on 50 hosts", "its last snapshot is")
        async with running(connection, TELLING):
            await asyncio.to_thread(console.pass_time, 0.5)
            yield console


async def test_five_hundred_workers_cost_little(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    async with crew_that_tells(database, connection, environ) as console:
        cpu = console.cpu_s
        sent = await asyncio.to_thread(console.pass_time, 4.0) / 4
        share = (console.cpu_s - cpu) / 4
    told("500 workers, 100 snapshots/s", f"{sent / 1000:.1f} kB/s", "< 5 kB/s")
    told("500 workers, 100 snapshots/s", f"{share:.1%} of a core", "< 15%")
    assert sent < 5_000
    assert share < 0.15


@pytest.mark.alone
async def test_keys_do_not_wait_for_five_hundred_workers(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    async with crew_that_tells(database, connection, environ) as console:
        keys = await asyncio.to_thread(latencies, console)
    told(f"{KEYS} keys", f"{percentile(keys, 0.9) * 1000:.0f} ms at p90", "< 50 ms")
    assert percentile(keys, 0.9) < 0.05
