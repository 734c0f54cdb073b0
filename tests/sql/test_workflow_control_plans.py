"""The statements of verbs and of the reconciliation read only their workflows, however many are stored."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest
from plan_steps import nodes
from statements import statement

# Most ended long ago, a few are live: 8 nodes each in a chain, the live ones at their third.
FILL = """
INSERT INTO horsies_workflows (id, name, status, root_workflow_id, parent_workflow_id)
SELECT 'w' || n, 'demo', CASE WHEN n % 100 = 0 THEN 'RUNNING' ELSE 'COMPLETED' END, 'w' || n, NULL
  FROM generate_series(1, 4000) n;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, dependencies, status, task_id)
SELECT gen_random_uuid(), 'w' || w, i, 'n' || i, 'demo.add', CASE WHEN i = 0 THEN '{}'::int[] ELSE ARRAY[i - 1] END,
       CASE WHEN w % 100 <> 0 OR i < 2 THEN 'COMPLETED' WHEN i = 2 THEN 'RUNNING' ELSE 'PENDING' END,
       CASE WHEN w % 100 <> 0 OR i < 3 THEN 't' || w || '-' || i END
  FROM generate_series(1, 4000) w, generate_series(0, 7) i;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, is_workflow_task, started_at, completed_at)
SELECT task_id, task_name, 'default', status, true, now(), CASE status WHEN 'COMPLETED' THEN now() END
  FROM horsies_workflow_tasks WHERE task_id IS NOT NULL;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', now(), now() FROM horsies_tasks;
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)
SELECT gen_random_uuid(), 'pause', 'workflow', id, 'applied' FROM horsies_workflows;
ANALYZE;
"""
IDS, TASK_IDS, INDEXES = "ARRAY['w100', 'w7']", "ARRAY['t100-2', 't7-1']", "ARRAY[2, 1]"
STATES, TEXTS, FLAGS = "ARRAY['READY', 'READY']", "ARRAY['a', 'b']", "ARRAY[true, false]"

# The arguments of each statement.
STATEMENTS = {
    "family_of": "'w100'",
    "family_workflows": IDS,
    "family_nodes": IDS,
    "control_pause": "'w100'",
    "control_resume": "'w100'",
    "control_notify_queues": IDS,
    "control_notify_builders": IDS,
    "control_cancel": "'w100'",
    "control_live_tasks": IDS,
    "control_end_tasks": f"{TASK_IDS}, '{{}}', 'words'",
    "control_cancel_nodes": f"{IDS}, {TASK_IDS}, {TASK_IDS}, '{{}}', '{{}}'",
    "reopen_nodes": f"{IDS}, {INDEXES}, {STATES}, {FLAGS}",
    "reopen_workflows": IDS,
    "reopen_tasks": TASK_IDS,
    "reopen_deadlines": f"{IDS}, {INDEXES}",
    "reopen_options": f"{IDS}, {INDEXES}, {TEXTS}, {TEXTS}",
    "reconcile_link": f"'w100', {INDEXES}, {STATES}",
    "copied_options": "'w7'",
    "copy_workflow_row": "'w7', 'copy'",
    "copy_nodes": f"'w7', 'copy', {INDEXES}, {TEXTS}, {TEXTS}, {TEXTS}",
    "workflow_last_actions": "'w100'",
    "stuck_workflows": "0, '', 100",
    "damaged_workflows": "100",
}


@pytest.fixture
async def grown(connection: asyncpg.Connection) -> asyncpg.Connection:
    await connection.execute(FILL)
    await connection.execute(statement("op_begin").replace("true)", "false)"))
    return connection


def read_whole(plan: dict[str, Any]) -> set[str]:
    """The tables with a sequential scan in the plan."""
    return {step["Relation Name"] for step in nodes(plan) if step["Node Type"] == "Seq Scan"}


async def test_no_statement_reads_a_table_from_end_to_end(grown: asyncpg.Connection) -> None:
    found = {}
    for name, arguments in STATEMENTS.items():
        await grown.execute(f"PREPARE {name} AS {statement(name)}")
        plan = await grown.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({arguments})")
        if whole := read_whole(json.loads(plan)[0]["Plan"]):
            found[name] = whole
    assert found == {}


async def test_the_scan_costs_what_lives_and_not_what_is_stored(grown: asyncpg.Connection) -> None:
    plan = await grown.fetchval(
        "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) "
        + statement("stuck_workflows").replace("$1", "0").replace("$2", "''").replace("$3", "100")
    )
    touched = json.loads(plan)[0]["Plan"]["Shared Hit Blocks"]
    # 40 live workflows, with 240 open nodes, each a few pages deep in three indexes; 32,000 nodes are stored.
    assert touched < 3_500
