"""The bytes that the schedules screen sends: almost none when idle, and few with 300 schedules that run often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import KEYS, latencies, running, told

pytestmark = pytest.mark.bench

PLANNED = """
INSERT INTO horsies_schedules (schedule_name, config_hash, definition)
SELECT 'schedule ' || lpad(n::text, 3, '0'), 'hash', '{"pattern": {"type": "interval", "minutes": 5},
       "timezone": "UTC", "kind": "task", "target": "shop.report"}' FROM generate_series(1, $1::integer) n
"""
DUE = """
INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count)
SELECT schedule_name, now() + interval '3 h 40 s', 20 FROM horsies_schedules
"""
RUNS = """
INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id)
SELECT schedule_name, slot, slot, schedule_name || n
  FROM horsies_schedules
 CROSS JOIN generate_series(1, 20) n CROSS JOIN LATERAL (SELECT now() - n * interval '1 h' AS slot) at
"""
TASKS = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)
SELECT task_id, 'shop.report', 'default', CASE WHEN hashtext(task_id) % 5 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, slot,
       slot + interval '2 s' FROM horsies_schedule_runs
"""
SERVED = """
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)
SELECT 'web-1-7-aa', 'web-1', 7, array_agg(schedule_name), '1.0.0', now() + interval '5 min' FROM horsies_schedules
"""
RUNNING = """
DO $$
BEGIN
    FOR turn IN 0..100 LOOP
        INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at)
        SELECT schedule_name || 'run' || turn, 'shop.report', 'default', 'COMPLETED', now(), now()
          FROM horsies_schedules WHERE hashtext(schedule_name) % 50 = turn % 50;
        INSERT INTO horsies_schedule_runs (schedule_name, slot, task_id)
        SELECT schedule_name, clock_timestamp(), schedule_name || 'run' || turn
          FROM horsies_schedules WHERE hashtext(schedule_name) % 50 = turn % 50;
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""
REST_S = 8


async def plan(connection: asyncpg.Connection, many: int) -> None:
    await connection.execute(PLANNED, many)
    for sql in (DUE, RUNS, TASKS, SERVED):
        await connection.execute(sql)


@pytest.mark.parametrize("many", [pytest.param(0, marks=pytest.mark.chaos), 8])
async def test_at_rest_it_sends_its_clock_and_little_else(
    database: str, connection: asyncpg.Connection, environ: dict[str, str], many: int
) -> None:
    """The next runs and the last ones are hours away, so no bytes are allowed for times that tick each second."""
    if many:
        await plan(connection, many)
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, "--screen", "schedules") as console:
        await asyncio.to_thread(console.until, "LIVE", "8 scheduled" if many else "No schedule is stored here")
        await asyncio.to_thread(console.pass_time, 2.0)
        before = console.received
        await asyncio.to_thread(console.pass_time, REST_S)
        idle = (console.received - before) / REST_S
    told(f"an idle list of {many} schedules", f"{idle:.0f} B/s", "< 200 B/s")
    assert idle < 200


@asynccontextmanager
async def schedules_that_run(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> AsyncIterator[PtyConsole]:
    await plan(connection, 300)
    with PtyConsole({**environ, "HORSIES_DATABASE_URL": database}, "--screen", "schedules") as console:
        await asyncio.to_thread(console.until, "LIVE", "300 scheduled", "past runs")
        async with running(connection, RUNNING):
            await asyncio.to_thread(console.pass_time, 0.5)
            yield console


async def test_three_hundred_schedules_that_run_cost_little(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    async with schedules_that_run(database, connection, environ) as console:
        cpu = console.cpu_s
        sent = await asyncio.to_thread(console.pass_time, 4.0) / 4
        share = (console.cpu_s - cpu) / 4
    told("300 schedules, 60 runs/s", f"{sent / 1000:.1f} kB/s", "< 5 kB/s")
    told("300 schedules, 60 runs/s", f"{share:.1%} of a core", "< 15%")
    assert sent < 5_000
    assert share < 0.15


@pytest.mark.alone
async def test_keys_do_not_wait_for_three_hundred_schedules(
    database: str, connection: asyncpg.Connection, environ: dict[str, str]
) -> None:
    async with schedules_that_run(database, connection, environ) as console:
        keys = await asyncio.to_thread(latencies, console)
    told(f"{KEYS} keys", f"{percentile(keys, 0.9) * 1000:.0f} ms at p90", "< 50 ms")
    assert percentile(keys, 0.9) < 0.05
