"""The bytes that the workflow list and a graph send, idle and while nodes change."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from pty_console import PtyConsole, percentile
from test_numbers import best_latencies, running, told

pytestmark = pytest.mark.bench

ORDERS = """
INSERT INTO horsies_workflows (id, name, status, sent_at, created_at, updated_at, started_at)
SELECT 'w-' || lpad(n::text, 4, '0'), 'order', 'RUNNING', at, at, at, at
  FROM generate_series(1, 200) n CROSS JOIN LATERAL (SELECT now() - n * interval '71 min' AS at) made;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, dependencies, started_at)
SELECT w.id || '-' || n, w.id, n, 'step_' || n, 'shop.step', 'RUNNING',
       CASE n / 6 WHEN 0 THEN '{}' ELSE ARRAY[n - 6] END, w.started_at
  FROM horsies_workflows w CROSS JOIN generate_series(0, 23) n;
"""
STEPS = """
DO $$
BEGIN
    FOR turn IN 1..200 LOOP
        UPDATE horsies_workflow_tasks
           SET status = CASE status WHEN 'RUNNING' THEN 'COMPLETED' ELSE 'RUNNING' END, completed_at = now()
         WHERE id = ANY (ARRAY(SELECT id FROM horsies_workflow_tasks WHERE workflow_id BETWEEN 'w-0001' AND '{last}'
                                ORDER BY random() LIMIT 10));
        PERFORM pg_notify('task_done', turn::text);
        COMMIT;
        PERFORM pg_sleep(0.1);
    END LOOP;
END
$$
"""


@pytest.fixture
async def orders(database: str, connection: asyncpg.Connection, environ: dict[str, str]) -> dict[str, str]:
    """Workflows of some hours ago and earlier, each with 24 nodes in six lanes."""
    await connection.execute(ORDERS)
    return {**environ, "HORSIES_DATABASE_URL": database}


@pytest.mark.parametrize(("keys", "last"), [("", "w-0030"), ("\r", "w-0001")])
async def test_a_hundred_nodes_that_change_each_second_cost_little_and_none_next_to_nothing(
    connection: asyncpg.Connection, orders: dict[str, str], keys: str, last: str
) -> None:
    """In the list, and in the graph of its first workflow."""
    with PtyConsole(orders, screen="workflows") as console:
        await asyncio.to_thread(console.until, "LIVE", "order")
        console.type(keys)
        await asyncio.to_thread(console.pass_time, 1.0)
        idle = await asyncio.to_thread(console.pass_time, 3.0) / 3
        async with running(connection, STEPS.format(last=last)):
            await asyncio.to_thread(console.pass_time, 0.5)
            cpu = console.cpu_s
            sent = await asyncio.to_thread(console.pass_time, 2.0) / 2
            share = (console.cpu_s - cpu) / 2
    what = "the graph" if keys else "the list of workflows"
    told(f"{what}, idle", f"{idle:.0f} B/s", "< 200 B/s")
    told(f"{what}, 100 nodes/s", f"{sent / 1000:.1f} kB/s", "< 20 kB/s")
    told(f"{what}, 100 nodes/s", f"{share:.1%} of a core", "< 10%")
    assert idle < 200
    assert sent < 20_000
    assert share < 0.1


@pytest.mark.alone
async def test_a_key_in_the_list_is_painted_at_once(connection: asyncpg.Connection, orders: dict[str, str]) -> None:
    with PtyConsole(orders, screen="workflows") as console:
        await asyncio.to_thread(console.until, "LIVE", "order")
        await asyncio.to_thread(console.key_to_paint, "j", 1)  # the first screen may still be on its way
        async with running(connection, STEPS.format(last="w-0030")):
            found = await asyncio.to_thread(best_latencies, console, 0.05)
    told("workflows, key → paint, p99", f"{percentile(found, 0.99) * 1000:.0f} ms", "< 50 ms")
    assert percentile(found, 0.99) < 0.05
