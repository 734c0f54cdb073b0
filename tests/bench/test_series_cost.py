"""The cost of the overview's and the workers' charts with 1,000,000 tasks and a week of 500 workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import psutil
import pytest

from horsies.views import (
    READER_SETTINGS,
    Buckets,
    cluster_series,
    failures,
    queue_rates,
    queue_rows,
    task_series,
    worker_clocks,
    worker_rows,
    worker_series,
)
from horsies_tui.health.windows import WINDOWS

pytestmark = pytest.mark.bench

# The tasks of one day; each worker has a snapshot per minute for a week, and every 5 s for the last ten minutes.
FILL = """
SET session_replication_role = replica;
SET synchronous_commit = off;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, started_at, completed_at,
                           failed_at, error_code)
SELECT 't' || n, 'shop.task_' || n % 40, 'q' || n % 6, status, at, at, at + interval '1 s',
       CASE status WHEN 'COMPLETED' THEN at + interval '3 s' END,
       CASE status WHEN 'FAILED' THEN at + interval '3 s' END, CASE status WHEN 'FAILED' THEN 'CODE_' || n % 7 END
  FROM generate_series(1000000, 1, -1) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '86 ms' AS at,
                            CASE WHEN n % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status) row;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at)
SELECT 'p' || n, 'shop.task', 'q' || n % 6, 'PENDING', now() - interval '5 min', now() - interval '5 min'
  FROM generate_series(1, 40000) n;
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, worker_started_at, tasks_running)
SELECT 'web-' || w, at + w * interval '9 ms', 'host', 1, 8, 8, 8, '{q0}', now(), 4
  FROM (SELECT now() - n * interval '1 min' AS at FROM generate_series(10080, 11, -1) n
        UNION ALL SELECT now() - n * interval '5 s' FROM generate_series(120, 1, -1) n) moments
 CROSS JOIN generate_series(0, 499) w;
"""


ROUNDS = 10


async def took(conn: asyncpg.Connection, read: Callable[[], Awaitable[Any]]) -> float:
    """CPU time of the backend in ms, which does not depend on other load of the machine."""
    backend = psutil.Process(await conn.fetchval("SELECT pg_backend_pid()"))
    before = backend.cpu_times()
    for _ in range(ROUNDS):
        await read()
    after = backend.cpu_times()
    return (after.user + after.system - before.user - before.system) * 1000 / ROUNDS


async def test_series_and_latest_rows_stay_cheap(database: str, connection: asyncpg.Connection) -> None:
    await connection.execute(FILL)
    await connection.execute("VACUUM ANALYZE")
    conn = await asyncpg.connect(database, server_settings=dict(READER_SETTINGS), statement_cache_size=0)
    found: dict[str, float] = {}
    for window in WINDOWS:
        buckets = Buckets.until(await conn.fetchval("SELECT now()"), window.length, window.step)
        found[f"one worker, {window.name}"] = await took(conn, lambda: worker_series(conn, "web-7", buckets))  # noqa: B023
        found[f"all workers, {window.name}"] = await took(conn, lambda: cluster_series(conn, buckets))  # noqa: B023
        found[f"tasks, {window.name}"] = await took(conn, lambda: task_series(conn, buckets))  # noqa: B023
        found[f"tasks, what was added, {window.name}"] = await took(conn, lambda: task_series(conn, buckets.newest(2)))  # noqa: B023
    week = Buckets.until(await conn.fetchval("SELECT now()"), timedelta(days=7), timedelta(hours=2))
    found["one worker, 7 days"] = await took(conn, lambda: worker_series(conn, "web-7", week))
    for read in (worker_rows, queue_rows, queue_rates, failures, worker_clocks):
        found[read.__name__] = await took(conn, lambda: read(conn))  # noqa: B023
    await conn.close()
    for name, milliseconds in found.items():
        print(f"{name:36} {milliseconds:8.1f} ms")
    quick = [name for name in found if name.startswith(("one worker", "all workers", "worker_rows"))]
    assert {name: found[name] for name in quick if found[name] >= 20} == {}
