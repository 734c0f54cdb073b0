"""Operators who decide nodes and end tasks of workflows at random, through the engine's own functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

import asyncpg
from family_audit import Ledger
from operation_steps import OPS
from workflow_model import Flow

from horsies.lifecycle.controlling import complete_node, skip_node
from horsies.lifecycle.reopening import CannotReopenError
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

# The model does not cover what a map makes of a skipped item, or of a value that is not a number.
NODES = """
SELECT node.workflow_id, node.task_index, node.status, workflow.definition_key
  FROM horsies_workflow_tasks node JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE workflow.definition_key <> '__horsies_map__'
 ORDER BY workflow.depth, workflow.id, node.task_index
"""
LIVE = """
SELECT task.id FROM horsies_workflow_tasks node JOIN horsies_tasks task ON task.id = node.task_id
 WHERE task.status IN ('PENDING', 'CLAIMED', 'RUNNING') AND node.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
 ORDER BY node.workflow_id, node.task_index
"""
CHILD = "SELECT sub_workflow_id FROM horsies_workflow_tasks WHERE workflow_id = $1 AND task_index = $2"
CODES = {VERBS["task", "fail"]: "OPERATOR_FAILED", VERBS["task", "cancel"]: "TASK_CANCELLED"}


class Operators:
    def __init__(self, rng: Random, ledger: Ledger) -> None:
        self.flows: Mapping[str, Flow] = {}
        self._rng = rng
        self._ledger = ledger

    async def skip(self, conn: asyncpg.Connection) -> None:
        nodes = [row for row in await conn.fetch(NODES) if row["status"] not in ("COMPLETED", "FAILED", "SKIPPED")]
        if nodes:
            workflow_id, index, *_ = self._rng.choice(nodes)
            if await skip_node(conn, workflow_id, index, "by hand"):
                await self._decided(conn, (workflow_id, index), None)

    async def complete(self, conn: asyncpg.Connection) -> None:
        """With a list as value, because a map may run over it."""
        nodes = [row for row in await conn.fetch(NODES) if row["status"] != "COMPLETED" and self._is_free(row)]
        if not nodes:
            return
        workflow_id, index, status, _ = self._rng.choice(nodes)
        value = self._rng.choices(range(9), k=self._rng.randint(0, 3))
        result = json.dumps({"__task_result__": True, "ok": value, "err": None})
        try:
            done = await complete_node(conn, workflow_id, index, result, "by hand")
        except CannotReopenError:
            return
        if done:
            self._ledger.retried |= status in ("FAILED", "SKIPPED")
            await self._decided(conn, (workflow_id, index), value)

    async def end_task(self, conn: asyncpg.Connection) -> None:
        live = [row[0] for row in await conn.fetch(LIVE)]
        if live:
            verb = self._rng.choice(list(CODES))
            looked = await preview(conn, verb, Selection.of_ids([self._rng.choice(live)]))
            for row in (await apply(conn, looked, OPS, None)).applied:
                self._ledger.ended_by_hand[row.target.id] = CODES[verb]

    def _is_free(self, node: asyncpg.Record) -> bool:
        """A map that failed for lack of a list stays failed when it gets one: only a retry would run it again."""
        steps = self.flows[node["definition_key"]].steps
        return all(step.over != node["task_index"] or step.is_strict for step in steps)

    async def _decided(self, conn: asyncpg.Connection, place: tuple[str, int], value: list[int] | None) -> None:
        self._ledger.decided[place] = value
        child = await conn.fetchval(CHILD, *place)
        if child is not None:
            self._ledger.cancelled.add(child)
