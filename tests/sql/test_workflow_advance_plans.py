"""An advance, the verbs and the reconciliation read only their rows, however many workflows are stored."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from advance_steps import complete, end_task, fail, grow, states, task_of
from lifecycle_steps import HOT_PATH, MODES
from plan_steps import nodes
from statements import statement
from workflow_plans import node

from horsies.domain.plan import MAP_DEFINITION
from horsies.lifecycle.advancing import advance, lock_families, nodes_started, update_workflows
from horsies.lifecycle.create_workflow import read_child, ready_children, start_child
from horsies.workflow.subworkflow_plan import child_plan

# All with the same node ids, as the runs of one definition have them; 50 of them wait in paused workflows.
FILL = """
SET session_replication_role = replica;
INSERT INTO horsies_workflows (id, name, status, root_workflow_id)
SELECT 'old-' || n, 'demo', CASE WHEN n <= 50 THEN 'PAUSED' ELSE 'COMPLETED' END, 'old-' || n
  FROM generate_series(1, 1000) n;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, completed_at, is_workflow_task)
SELECT 'old-' || n || '-' || i, 'demo.add', 'default', CASE WHEN n <= 50 AND i > 40 THEN 'PENDING' ELSE 'COMPLETED' END,
       now(), true
  FROM generate_series(1, 1000) n, generate_series(0, 49) i;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, dependencies, task_id)
SELECT 'old-' || n || '-' || i, 'old-' || n, i, 'n' || i, 'demo.add',
       CASE WHEN n <= 50 AND i > 40 THEN 'ENQUEUED' ELSE 'COMPLETED' END,
       CASE i WHEN 0 THEN '{}'::integer[] ELSE ARRAY[i - 1] END, 'old-' || n || '-' || i
  FROM generate_series(1, 1000) n, generate_series(0, 49) i;
SET session_replication_role = origin;
"""
MAP = (
    '{"__horsies_map__":{"task":"demo.add","param":"a","queue":"default","priority":100,"max_items":9,'
    '"task_options":null,"items":[1,2]}}'
)
READ = """
SELECT (SELECT sum(seq_scan) FROM pg_stat_user_tables
         WHERE relname IN ('horsies_tasks', 'horsies_workflows', 'horsies_workflow_tasks'))::integer,
       (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::integer
       + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname <> ALL ($1))::integer
"""
# A round makes 3 workflows with 14 nodes in all and ends 12 tasks one by one; a whole index has 50,000 entries.
MOST = 3_000


async def everything_once(conn: asyncpg.Connection) -> None:
    """Each statement of an advance at least once."""
    flow = await grow(
        conn,
        node(0),
        node(1, 0, args_from={"a": 0}),
        node(2, 0, ctx_from=("n0",)),
        node(3, 1, 2, join="any"),
        node(4, 1, 2, join="quorum", min_success=2),
        node(5, 3, 4, args_from={"a": 3, "b": 4}, ctx_from=("n3", "n4")),
        on_error="pause",
    )
    await conn.execute(
        "UPDATE horsies_tasks SET status = 'RUNNING' WHERE id = $1", (await task_of(conn, flow, 0))["id"]
    )
    assert (await nodes_started(conn, [(await task_of(conn, flow, 0))["id"]])).nodes == 1
    for index in range(6):
        await complete(conn, flow, index)
    assert (await states(conn, flow)).startswith("COMPLETED")
    failing = await grow(conn, node(0), node(1, 0), node(2, 1), node(3), on_error="pause")
    await fail(conn, failing, 0)
    await advance(conn, [await end_task(conn, failing, 3)])
    await conn.execute("UPDATE horsies_workflows SET status = 'RUNNING' WHERE id = $1", failing)
    async with conn.transaction():
        await lock_families(conn, [failing])
        await update_workflows(conn, [failing])
    assert (await states(conn, failing)).startswith("FAILED")
    mapping = await grow(conn, node(0, kwargs_json=MAP, sub_definition_key=MAP_DEFINITION))
    assert await ready_children(conn, None, 10) == [(mapping, 0)]
    waiting = await read_child(conn, mapping, 0)
    assert waiting is not None
    planned = child_plan(None, waiting.definition_key, waiting.kwargs_json)  # type: ignore[arg-type] - needs no app
    child = await start_child(conn, mapping, 0, planned)
    assert child is not None
    for index in range(2):
        await complete(conn, child, index)
    assert (await states(conn, mapping)).startswith("COMPLETED")


async def a_traced_one(conn: asyncpg.Connection) -> None:
    """A traced workflow of six nodes, each task with a span, to which the next nodes link."""
    options = '{"retry_policy":null,"good_until":null,"trace":{"traceparent":"00-send"}}'
    edges = ((), (0,), (0,), (1, 2), (1, 2), (3, 4))
    flow = await grow(conn, *(node(index, *before, task_options=options) for index, before in enumerate(edges)))
    for index in range(6):
        task_id = await end_task(conn, flow, index)
        await advance(conn, [task_id], spans={task_id: f"00-{index}"})
    assert (await states(conn, flow)).startswith("COMPLETED")
    for index, before in enumerate(edges):
        trace = json.loads((await task_of(conn, flow, index))["task_options"])["trace"]
        assert trace.get("links", []) == [f"00-{one}" for one in before]


async def read_by(
    conn: asyncpg.Connection,
    rounds: int,
    but_for: tuple[str, ...] = (),
    act: Callable[[asyncpg.Connection], Awaitable[None]] = everything_once,
) -> tuple[int, float]:
    """Sequential scans, and entries of tables and indexes read per round, over this many rounds of all statements."""
    await conn.execute("SELECT pg_stat_force_next_flush()")
    before = await conn.fetchrow(READ, but_for)
    for _ in range(rounds):
        await act(conn)
    await conn.execute("SELECT pg_stat_force_next_flush()")
    after = await conn.fetchrow(READ, but_for)
    return after[0] - before[0], (after[1] - before[1]) / rounds


@pytest.mark.parametrize("act", [everything_once, a_traced_one])
@pytest.mark.parametrize("mode", MODES)
async def test_an_advance_reads_little_more_than_its_workflow_and_the_spans_of_its_own_nodes(
    full_database: str, mode: str, act: Callable[[asyncpg.Connection], Awaitable[None]]
) -> None:
    connection = await asyncpg.connect(full_database, server_settings=MODES[mode])
    scans, entries = await read_by(connection, 7, act=act)
    assert (scans, entries < MOST) == (0, True), entries
    await connection.close()


@pytest.mark.parametrize("analyzed", ["VACUUM ANALYZE", "SELECT 1"], ids=["vacuumed", "new"])
async def test_plans_of_empty_tables_still_serve_when_they_have_filled(
    database: str, connection: asyncpg.Connection, analyzed: str
) -> None:
    for table in ("horsies_tasks", "horsies_workflows", "horsies_workflow_tasks"):
        await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    await connection.execute(analyzed)
    worker = await asyncpg.connect(database, server_settings=HOT_PATH)
    await everything_once(worker)
    await connection.execute(FILL)
    # In an empty table this index of (created_at, id) is as good as the primary key for finding an id, and the newer
    # one is taken. The first ANALYZE, after fifty workflows, makes new plans.
    scans, entries = await read_by(worker, 3, but_for=("ix_horsies_workflows_created",))
    assert (scans, entries < MOST) == (0, True), entries
    await worker.close()


# Most ended long ago, a few are live: 8 nodes each in a chain, the live ones at their third.
FOUR_THOUSAND = """
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
    await connection.execute(FOUR_THOUSAND)
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
