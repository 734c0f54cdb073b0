"""A worker is stopped while it advances a workflow: other workflows continue, and its own is taken over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import asyncpg
import pytest
from chaos_scene import RETRIED, scene
from workflow_plans import node

from horsies.domain.ids import new_task_id
from horsies.domain.plan import WorkflowPlan
from horsies.lifecycle.create_workflow import create_workflow

pytestmark = pytest.mark.chaos

HOLDS = """
SELECT count(*) FROM pg_stat_activity
 WHERE application_name = 'horsies worker advance' AND datname = current_database()
   AND (state LIKE 'idle in transaction%'
        OR state = 'active' AND wait_event = 'ClientRead' AND backend_xid IS NOT NULL) -- within a statement
"""
WAITS = """
SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8
  FROM pg_locks JOIN pg_stat_activity USING (pid)
 WHERE NOT granted AND application_name LIKE 'horsies worker%' AND datname = current_database()
"""
COMPLETED = "SELECT count(*) FROM horsies_workflows WHERE id = ANY ($1) AND status = 'COMPLETED'"


async def until(connection: asyncpg.Connection, expected: int, question: str, *arguments: object) -> None:
    async with asyncio.timeout(90):
        while await connection.fetchval(question, *arguments) != expected:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)


async def longest_wait(database: str) -> float:
    """The longest time that a session of a worker waited for a lock, until the stopped one has lost its locks."""
    connection = await asyncpg.connect(database)
    longest = 0.0
    while await connection.fetchval(HOLDS):
        longest = max(longest, await connection.fetchval(WAITS))
        await asyncio.sleep(0.02)
    await connection.close()
    return longest


async def start(connection: asyncpg.Connection, ledger: Path, label: str, size: int) -> str:
    """A fan: one node, then all others in parallel."""
    nodes = tuple(
        node(
            *((index, 0) if index else (0,)),
            task_name="work",
            kwargs_json=json.dumps({"ledger": str(ledger), "label": f"{label}-{index}", "seconds": 0.0}),
            task_options=json.dumps(RETRIED),  # a run interrupted by the stop must not fail
        )
        for index in range(size)
    )
    workflow_id = new_task_id()
    async with connection.transaction():
        await create_workflow(connection, WorkflowPlan(label, None, "fail", None, None, nodes), workflow_id=workflow_id)
    return workflow_id


async def test_a_worker_stopped_in_the_middle_of_an_advance_stops_no_other(database: str, tmp_path: Path) -> None:
    async with scene(
        database, tmp_path, "a worker stopped while it advances", TEST_STALE_MS="4000", TEST_BEAT_MS="1000"
    ) as cluster:
        stopped = await cluster.worker("--processes", "2")
        large = await start(cluster.connection, cluster.ledger, "large", 800)
        held = False
        async with asyncio.timeout(60):
            while not held:
                os.killpg(stopped.pid, signal.SIGSTOP)
                held = bool(await cluster.connection.fetchval(HOLDS))
                if not held:
                    os.killpg(stopped.pid, signal.SIGCONT)
                    await asyncio.sleep(0.003)
        frozen = time.monotonic()
        waiting = asyncio.create_task(longest_wait(database))
        await cluster.worker("--processes", "2")
        others = [await start(cluster.connection, cluster.ledger, f"other-{number}", 4) for number in range(30)]
        await until(cluster.connection, len(others), COMPLETED, others)
        others_s = time.monotonic() - frozen
        assert others_s < 30
        await until(cluster.connection, 0, HOLDS)
        held_s = time.monotonic() - frozen
        assert held_s < 15
        waited_s = await waiting
        assert waited_s < 1, "a worker waited for what the stopped one had locked"
        await until(cluster.connection, 1, COMPLETED, [large])
        print(
            f"\n30 workflows in {others_s:.1f} s; the stopped one's in {time.monotonic() - frozen:.1f} s;"
            f" locks kept for {held_s:.1f} s, longest wait {waited_s:.2f} s"
        )
        os.killpg(stopped.pid, signal.SIGCONT)
        audit = await cluster.audit(crashes=None)
        assert (audit.violations, audit.tasks) == ([], 800 + 30 * 4)
