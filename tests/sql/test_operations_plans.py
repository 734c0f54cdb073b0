"""The statements of the operator verbs find rows by index, also in tables that have grown since their last ANALYZE."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from statements import statement

ROWS = 30_000
BATCH = 100

# The statistics are older than the rows: autovacuum comes later than operators do.
FILL = f"""
ANALYZE;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, enqueued_at, started_at,
                           completed_at)
SELECT 't' || n, 'demo.old', 'default', 'COMPLETED', 'worker-a', now(), now(), now(), now()
  FROM generate_series(1, {ROWS}) n;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', started_at, completed_at FROM horsies_tasks;
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)
SELECT '{uuid4()}', 'requeue', 'task', id, 'applied' FROM horsies_tasks;
"""


def array(value: str) -> str:
    return f"array_fill({value}, ARRAY[{BATCH}])"


IDS = "ARRAY[" + ", ".join(f"'t{number}'" for number in range(BATCH)) + "]"
ACTIONS = "ARRAY[" + ", ".join(str(number) for number in range(BATCH)) + "]"
SEEN = (
    f"{IDS}, {array(chr(39) + 'COMPLETED' + chr(39) + '::text')}, {array('NULL::text')}, {array('now()')}, {array('0')}"
)
WHO = f"'{uuid4()}', 'verb', 'ops', 'bastion', 'why', NULL"
TEXTS, TIMES = array("'x'::text"), array("now()")

TASKS, ATTEMPTS = "horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"
TRACE, TRACE_ID = "ix_horsies_operator_actions_target", "horsies_operator_actions_pkey"
KEYS = "uq_horsies_tasks_unique_key"

# For each statement its arguments and the indexes of its plan.
STATEMENTS = {
    "op_see": (IDS, {TASKS}),
    "op_options": (IDS, {TASKS}),
    "op_sources": (IDS, {TASKS}),
    "op_key_holders": (IDS, {KEYS}),
    "op_last_actions": (IDS, {TRACE}),
    "op_end": (f"{SEEN}, {WHO}, 'FAILED', 'r', 'c', 'a', 'w'", {TASKS, ATTEMPTS}),
    "op_requeue": (f"{SEEN}, {WHO}, {array('NULL::integer')}, 'w'", {TASKS, ATTEMPTS, KEYS}),
    "op_hurry": (f"{SEEN}, {WHO}", {TASKS}),
    "op_rerun": (
        f"{SEEN}, {WHO}, {array('NULL::bigint')}, {', '.join([TEXTS] * 5)}, {array('0')}, {TIMES}, {TIMES}",
        {TASKS, TRACE, KEYS},
    ),
    "op_undo": (f"{ACTIONS}, {IDS}, '{uuid4()}', 'ops', 'bastion', 'why'", {TASKS, TRACE, TRACE_ID, KEYS}),
}


@pytest.fixture
async def grown(connection: asyncpg.Connection) -> asyncpg.Connection:
    await connection.execute("ALTER TABLE horsies_tasks SET (autovacuum_enabled = off)")
    await connection.execute(FILL)
    await connection.execute(statement("op_begin").replace("true)", "false)"))
    return connection


def indexes(plan: dict[str, Any]) -> set[str]:
    """The indexes of the plan and its parts; a sequential scan stands for itself."""
    own = {plan["Index Name"]} if "Index Name" in plan else set()
    if plan["Node Type"] == "Seq Scan":
        own.add(f"all of {plan['Relation Name']}")
    return own.union(*(indexes(part) for part in plan.get("Plans", [])))


async def test_every_statement_of_the_verbs_reads_what_it_is_about(grown: asyncpg.Connection) -> None:
    found = {}
    for name, (arguments, _) in STATEMENTS.items():
        await grown.execute(f"PREPARE {name} AS {statement(name)}")
        plan = await grown.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({arguments})")
        # Empty in this test, and in most databases.
        empty = {"all of horsies_workflow_tasks", "all of horsies_workflows"}
        found[name] = indexes(json.loads(plan)[0]["Plan"]) - empty
    assert found == {name: expected for name, (_, expected) in STATEMENTS.items()}
