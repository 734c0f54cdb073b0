"""Sending and waiting read by index, with plans made once for all parameters."""

from __future__ import annotations

import json
import re

import asyncpg
from plan_steps import nodes
from statements import statement

FILL = """
SET session_replication_role = replica; -- nobody listens to 30 000 notifications

INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at)
SELECT gen_random_uuid(), 'demo.add', 'mail', 'COMPLETED', now() FROM generate_series(1, 30000);

INSERT INTO horsies_tasks (id, task_name, queue_name, status, unique_key, good_until, started_at)
SELECT 'task-' || n, 'demo.add', 'mail', CASE n % 3 WHEN 0 THEN 'RUNNING' ELSE 'PENDING' END, 'key-' || n,
       CASE WHEN n % 5 = 0 THEN now() END, now()
  FROM generate_series(1, 600) n;

INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', now(), now() FROM horsies_tasks;

INSERT INTO horsies_progress (task_id, started_at, done, reported_at)
SELECT id, now(), 1, now() FROM horsies_tasks;

INSERT INTO horsies_heartbeats (task_id, sender_id, role)
SELECT 'task-' || n % 600, 'w:1', 'runner' FROM generate_series(1, 20000) n;

INSERT INTO horsies_workflows (id, name, status)
SELECT 'flow-' || n, 'demo', 'COMPLETED' FROM generate_series(1, 3000) n;

INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status)
SELECT 'node-' || n, 'flow-' || n / 10, n % 10, 'demo:' || n % 10, 'demo.add', 'COMPLETED'
  FROM generate_series(10, 29999) n;
"""

INDEXES = {
    "enqueue_conflicts": {"horsies_tasks_pkey", "uq_horsies_tasks_key_and_name"},
    "read_outcomes": {"horsies_tasks_pkey"},
    "read_task": {"horsies_tasks_pkey", "horsies_progress_pkey"},
    "read_attempts": {"uq_horsies_task_attempts_task_attempt"},
    "stale_tasks": {"ix_horsies_tasks_in_flight", "idx_horsies_heartbeats_task_role_sent"},
    "worker_stats": {"ix_horsies_tasks_in_flight", "idx_horsies_heartbeats_task_role_sent"},
    "expired_tasks": {"ix_horsies_tasks_expiring"},
    "workflow_name": {"horsies_workflows_pkey"},
    "read_workflow_outcomes": {"horsies_workflows_pkey"},
    "read_workflow_nodes": {"horsies_workflows_pkey", "uq_horsies_workflow_task_index"},
    "read_workflow_node": {"horsies_workflows_pkey", "uq_horsies_workflow_task_index"},
}


async def test_nothing_is_read_in_full(connection: asyncpg.Connection) -> None:
    await connection.execute(FILL)
    await connection.execute("ANALYZE; SET plan_cache_mode = force_generic_plan")
    for name, indexes in INDEXES.items():
        parameters = ", ".join("NULL" for _ in set(re.findall(r"\$\d", statement(name))))
        await connection.execute(f"PREPARE {name} AS {statement(name)}")
        execute = f"EXECUTE {name}" + (f"({parameters})" if parameters else "")
        found = list(nodes(json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {execute}"))[0]["Plan"]))
        assert {node["Index Name"] for node in found if "Index Name" in node} == indexes, name
        assert not [node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"], name
