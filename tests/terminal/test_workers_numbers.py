"""What the Workers screen sends with 500 workers, each of which tells of itself every five seconds."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import KEYS, latencies, running, told

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


@pytest.mark.alone
async def test_five_hundred_workers_cost_little_and_keys_do_not_wait_for_them(
    database: str, environ: dict[str, str]
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(CREW)
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, "--screen", "workers") as console:
        await asyncio.to_thread(console.until, "LIVE", "500 workers on 50 hosts", "its last snapshot is")
        async with running(connection, TELLING):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu = console.cpu_s
            sent = await asyncio.to_thread(console.pass_time, 4.0) / 4
            share = (console.cpu_s - cpu) / 4
            keys = await asyncio.to_thread(latencies, console)
    await connection.close()
    told("500 workers, 100 snapshots/s", f"{sent / 1000:.1f} kB/s", "< 5 kB/s")
    told("500 workers, 100 snapshots/s", f"{share:.1%} of a core", "< 15%")
    told(f"{KEYS} keys", f"{percentile(keys, 0.9) * 1000:.0f} ms at p90", "< 50 ms")
    assert sent < 5_000
    assert share < 0.15
    assert percentile(keys, 0.9) < 0.05
