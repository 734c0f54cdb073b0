"""Steps for tests of operator verbs on workflows: store plans, end tasks, read states."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
from workflow_plans import node, plan

from horsies.domain.plan import WorkflowPlan
from horsies.lifecycle.advancing import advance, nodes_started, update_workflows
from horsies.lifecycle.create_workflow import ParentNode, create_workflow

DIAMOND = plan(node(0), node(1, 0), node(2, 0), node(3, 1, 2))
CHAIN = plan(node(0), node(1, 0), node(2, 1))


async def planted(conn: asyncpg.Connection, made: WorkflowPlan, workflow_id: str = "w1") -> str:
    async with conn.transaction():
        await create_workflow(conn, made, workflow_id=workflow_id)
    return workflow_id


async def planted_below(
    conn: asyncpg.Connection, made: WorkflowPlan, parent: str, index: int, workflow_id: str = "child"
) -> str:
    """A child workflow that a worker has built for a node of its parent."""
    row = await conn.fetchrow(
        "SELECT depth, COALESCE(root_workflow_id, id) FROM horsies_workflows WHERE id = $1", parent
    )
    async with conn.transaction():
        await create_workflow(conn, made, workflow_id=workflow_id, parent=ParentNode(parent, index, *row))
        await conn.execute(
            "UPDATE horsies_workflow_tasks SET status = 'RUNNING', sub_workflow_id = $3, started_at = now()"
            " WHERE workflow_id = $1 AND task_index = $2",
            parent,
            index,
            workflow_id,
        )
    return workflow_id


async def task_of(conn: asyncpg.Connection, workflow_id: str, index: int) -> str:
    found = await conn.fetchval(
        "SELECT task_id FROM horsies_workflow_tasks WHERE workflow_id = $1 AND task_index = $2", workflow_id, index
    )
    assert found is not None, f"node {index} of {workflow_id} has no task"
    return str(found)


async def runs(conn: asyncpg.Connection, workflow_id: str, *indexes: int, worker: str = "w-a") -> None:
    """A worker runs the tasks of these nodes, and the nodes are updated."""
    for index in indexes:
        task_id = await task_of(conn, workflow_id, index)
        await conn.execute(
            "UPDATE horsies_tasks SET status = 'RUNNING', claimed_by_worker_id = $2, claimed_at = now(),"
            " started_at = now() WHERE id = $1",
            task_id,
            worker,
        )
        await nodes_started(conn, [task_id])


async def task_ends(
    conn: asyncpg.Connection, workflow_id: str, index: int, status: str = "COMPLETED", *, seconds_ago: float = 0
) -> str:
    """The first of the two transactions at the end of a task; the node is not updated yet."""
    task_id = await task_of(conn, workflow_id, index)
    await conn.execute(
        "UPDATE horsies_tasks SET status = $2::text, result = $3, started_at = now(), error_code = $4,"
        " completed_at = CASE $2::text WHEN 'COMPLETED' THEN now() - $5 * interval '1 s' END,"
        " failed_at = CASE WHEN $2::text <> 'COMPLETED' THEN now() - $5 * interval '1 s' END WHERE id = $1",
        task_id,
        status,
        result_of(status, index),
        None if status == "COMPLETED" else "BROKE",
        seconds_ago,
    )
    return task_id


async def ends(conn: asyncpg.Connection, workflow_id: str, *indexes: int, status: str = "COMPLETED") -> None:
    """Both transactions, one node after the other."""
    for index in indexes:
        await advance(conn, [await task_ends(conn, workflow_id, index, status)])


async def settled(conn: asyncpg.Connection, workflow_id: str) -> None:
    async with conn.transaction():
        await update_workflows(conn, [workflow_id])


def result_of(status: str, index: int) -> str:
    error = {"__task_error__": True, "error_code": "BROKE", "data": None, "message": f"n{index} broke"}
    ok = status == "COMPLETED"
    return json.dumps({"__task_result__": True, "ok": index if ok else None, "err": None if ok else error})


async def states(conn: asyncpg.Connection, workflow_id: str = "w1") -> str:
    """As in `RUNNING: COMPLETED ENQUEUED PENDING`."""
    status = await conn.fetchval("SELECT status FROM horsies_workflows WHERE id = $1", workflow_id)
    rows = await conn.fetch(
        "SELECT status FROM horsies_workflow_tasks WHERE workflow_id = $1 ORDER BY task_index", workflow_id
    )
    return f"{status}: {' '.join(row[0] for row in rows)}"


async def node_row(conn: asyncpg.Connection, workflow_id: str, index: int) -> dict[str, Any]:
    return dict(
        await conn.fetchrow(
            "SELECT * FROM horsies_workflow_tasks WHERE workflow_id = $1 AND task_index = $2", workflow_id, index
        )
    )


async def workflow_row(conn: asyncpg.Connection, workflow_id: str = "w1") -> dict[str, Any]:
    return dict(await conn.fetchrow("SELECT * FROM horsies_workflows WHERE id = $1", workflow_id))


async def task_row(conn: asyncpg.Connection, workflow_id: str, index: int) -> dict[str, Any]:
    task_id = await task_of(conn, workflow_id, index)
    return dict(await conn.fetchrow("SELECT * FROM horsies_tasks WHERE id = $1", task_id))


async def rows_of_workflows(conn: asyncpg.Connection) -> list[list[tuple[Any, ...]]]:
    """All rows, for comparing before and after."""
    tables = ("horsies_workflows", "horsies_workflow_tasks", "horsies_tasks", "horsies_task_attempts")
    return [[tuple(row) for row in await conn.fetch(f"SELECT * FROM {table} ORDER BY id")] for table in tables]
