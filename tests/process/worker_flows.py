"""Workflows for the workers of fault_app.py, stored without the application that would define them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import workflow_plans
from fault_scene import Scene
from test_worker import PATIENCE_S, Table, Worker

from horsies.domain.ids import new_task_id
from horsies.domain.plan import MAP_DEFINITION, NodePlan, WorkflowPlan
from horsies.lifecycle.create_workflow import create_workflow

OVER = ("COMPLETED", "FAILED", "CANCELLED")


class Flows(Scene):
    """A scene whose tasks are nodes; each run of a node's code writes its name to the ledger."""

    def node(self, index: int, *dependencies: int, task: str = "work", **columns: Any) -> NodePlan:
        arguments: dict[str, Any] = {"ledger": str(self.ledger), "task": f"n{index}"}
        if task == "hold":
            arguments["go"] = str(self.go)
        kwargs_json = json.dumps(arguments | columns.pop("more", {}))
        values = {"task_name": task, "kwargs_json": kwargs_json, "task_options": None, **columns}
        return workflow_plans.node(index, *dependencies, **values)

    def map_node(self, index: int, items: list[str]) -> NodePlan:
        """`work` once for each item, which is its name in the ledger."""
        order = {
            "task": "work",
            "param": "task",
            "queue": "default",
            "priority": 100,
            "max_items": 100,
            "task_options": None,
            "items": items,
        }
        kwargs = json.dumps({MAP_DEFINITION: order, "ledger": str(self.ledger)})
        return self.node(index, kwargs_json=kwargs, sub_definition_key=MAP_DEFINITION)

    async def create_workflow(self, *nodes: NodePlan, on_error: str = "fail") -> str:
        workflow_id = new_task_id()
        planned = WorkflowPlan("flow", None, on_error, None, None, nodes)
        async with self.connection.transaction():
            await create_workflow(self.connection, planned, workflow_id=workflow_id)
        return workflow_id

    async def over(self, workflow_id: str, patience_s: float = PATIENCE_S) -> asyncpg.Record:
        """The workflow once it has ended."""
        async with asyncio.timeout(patience_s):
            while True:
                row = await self.connection.fetchrow("SELECT * FROM horsies_workflows WHERE id = $1", workflow_id)
                if row["status"] in OVER:
                    return row
                await asyncio.sleep(0.03)

    async def nodes(self, workflow_id: str) -> list[str]:
        rows = await self.connection.fetch(
            "SELECT status FROM horsies_workflow_tasks WHERE workflow_id = $1 ORDER BY task_index", workflow_id
        )
        return [row["status"] for row in rows]

    async def until_nodes(self, workflow_id: str, *statuses: str) -> None:
        """Wait until the nodes have these statuses."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.nodes(workflow_id) != list(statuses):  # noqa: ASYNC110 - no event for nodes
                await asyncio.sleep(0.03)

    async def values(self, workflow_id: str) -> dict[str, Any]:
        """The values of the nodes without successors, by id."""
        row = await self.over(workflow_id)
        assert row["status"] == "COMPLETED", row["error"]
        return {node_id: result["ok"] for node_id, result in json.loads(row["result"])["ok"].items()}

    async def once_each(self, *labels: str) -> None:
        """No node's code has run twice, and no task is left that could run."""
        assert {label: len(self.runs(label)) for label in labels} == dict.fromkeys(labels, 1)
        left = await self.connection.fetchval(
            "SELECT count(*) FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING')"
        )
        assert left == 0


@pytest.fixture
async def flows(table: Table, start: Callable[..., Worker], tmp_path: Path) -> Flows:
    return Flows(table, start, tmp_path)
