"""Steps for tests of advancing: store workflows, end tasks, read nodes and workflows."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import asyncpg
from workflow_plans import plan

from horsies.domain.ids import new_task_id
from horsies.domain.plan import NodePlan
from horsies.lifecycle.advancing import Advanced, advance
from horsies.lifecycle.create_workflow import create_workflow
from horsies.run.events import Events
from horsies.run.loops import Wake
from horsies.run.settings import Identity
from horsies.run.worker.advancer import Advancer
from horsies.store.dedicated_connection import DedicatedConnection

FAILURE = {"__task_error__": True, "error_code": "BROKE", "data": None, "message": "it broke"}


def advancer_alone(dedicated: DedicatedConnection) -> Advancer:
    """The loop of a worker that advances workflows, without that worker."""
    flow = SimpleNamespace(enqueued=lambda: None, quiet=Wake(), events=Events(), rules=None, identity=Identity())
    return Advancer(dedicated, flow, SimpleNamespace(wake=Wake()))  # type: ignore[arg-type]


def ok(value: Any) -> str:
    return json.dumps({"__task_result__": True, "ok": value, "err": None}, separators=(",", ":"))


def failure(code: str = "BROKE") -> str:
    return json.dumps(
        {"__task_result__": True, "ok": None, "err": FAILURE | {"error_code": code}}, separators=(",", ":")
    )


async def grow(conn: asyncpg.Connection, *nodes: NodePlan, **columns: Any) -> str:
    """Store a workflow of these nodes, as a start does, and return its id."""
    workflow_id = new_task_id()
    async with conn.transaction():
        await create_workflow(conn, plan(*nodes, **columns), workflow_id=workflow_id)
    return workflow_id


async def nodes_of(conn: asyncpg.Connection, workflow_id: str) -> list[dict[str, Any]]:
    rows = await conn.fetch(
        "SELECT * FROM horsies_workflow_tasks WHERE workflow_id = $1 ORDER BY task_index", workflow_id
    )
    return [dict(row) for row in rows]


async def states(conn: asyncpg.Connection, workflow_id: str) -> str:
    """The workflow's status, a colon, and the statuses of its nodes."""
    status = await conn.fetchval("SELECT status FROM horsies_workflows WHERE id = $1", workflow_id)
    return f"{status}: " + " ".join(node["status"].lower() for node in await nodes_of(conn, workflow_id))


async def workflow(conn: asyncpg.Connection, workflow_id: str) -> dict[str, Any]:
    return dict(await conn.fetchrow("SELECT * FROM horsies_workflows WHERE id = $1", workflow_id))


async def task_of(conn: asyncpg.Connection, workflow_id: str, index: int) -> dict[str, Any]:
    return dict(
        await conn.fetchrow(
            "SELECT task.* FROM horsies_workflow_tasks node JOIN horsies_tasks task ON task.id = node.task_id"
            " WHERE node.workflow_id = $1 AND node.task_index = $2",
            workflow_id,
            index,
        )
    )


async def end_task(
    conn: asyncpg.Connection, workflow_id: str, index: int, status: str = "COMPLETED", result: str | None = ok(None)
) -> str:
    """End the task of this node without advancing, and return its id."""
    task_id: str = await conn.fetchval(
        "UPDATE horsies_tasks SET status = $3::text, result = $4, started_at = now(),"
        " completed_at = CASE WHEN $3::text = 'COMPLETED' THEN now() END,"
        " failed_at = CASE WHEN $3::text <> 'COMPLETED' THEN now() END"
        " WHERE id = (SELECT task_id FROM horsies_workflow_tasks WHERE workflow_id = $1 AND task_index = $2)"
        " RETURNING id",
        workflow_id,
        index,
        status,
        result,
    )
    assert task_id is not None
    return task_id


async def complete(conn: asyncpg.Connection, workflow_id: str, index: int, value: Any = None) -> Advanced:
    return await advance(conn, [await end_task(conn, workflow_id, index, result=ok(value))])


async def fail(conn: asyncpg.Connection, workflow_id: str, index: int, code: str = "BROKE") -> Advanced:
    return await advance(conn, [await end_task(conn, workflow_id, index, "FAILED", failure(code))])


async def everything(conn: asyncpg.Connection) -> list[list[tuple[Any, ...]]]:
    tables = ("horsies_workflows", "horsies_workflow_tasks", "horsies_tasks")
    return [[tuple(row) for row in await conn.fetch(f"SELECT * FROM {table} ORDER BY id")] for table in tables]
