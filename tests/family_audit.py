"""Checks that the stored rows of a family of workflows are consistent, and agree with what was done to it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from horsies.lifecycle.reconciling import plan_repairs, reconcile_all, stuck_workflows

LOG = """
CREATE TABLE changes (number bigserial, what text, workflow_id text, index integer, old text, new text);
CREATE FUNCTION log_flow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO changes (what, workflow_id, old, new) VALUES ('flow', NEW.id, OLD.status, NEW.status);
    RETURN NULL;
END $$;
CREATE FUNCTION log_node() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO changes (what, workflow_id, index, old, new)
    VALUES ('node', NEW.workflow_id, NEW.task_index, OLD.status, NEW.status);
    RETURN NULL;
END $$;
CREATE TRIGGER log_flow AFTER UPDATE ON horsies_workflows FOR EACH ROW
    WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION log_flow();
CREATE TRIGGER log_node AFTER UPDATE ON horsies_workflow_tasks FOR EACH ROW
    WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION log_node();
"""
EMPTY = "DELETE FROM horsies_tasks; DELETE FROM horsies_workflows; DELETE FROM changes"

TABLES = ("horsies_workflows", "horsies_workflow_tasks", "horsies_tasks", "horsies_task_attempts")
FLOW_ENDS, NODE_ENDS = ("COMPLETED", "FAILED", "CANCELLED"), ("COMPLETED", "FAILED", "SKIPPED")
TASK_ENDS = ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")
FLOW_ARROWS = {
    ("RUNNING", "PAUSED"), ("RUNNING", "COMPLETED"), ("RUNNING", "FAILED"), ("RUNNING", "CANCELLED"),
    ("PAUSED", "RUNNING"), ("PAUSED", "CANCELLED"),
}  # fmt: skip


@dataclass
class Ledger:
    """What was done during a run, for the audit."""

    firsts: dict[tuple[str, int], str] = field(default_factory=dict)
    """The first claimed task of each node."""
    starts: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By task, the final outcomes: COMPLETED or the error code."""
    given: dict[str, tuple[tuple[str, int], Mapping[str, Any]]] = field(default_factory=dict)
    """By task, the results of other nodes that its code received, and its own node."""
    done_with: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By node, the tasks whose outcome is no longer used."""
    decided: dict[tuple[str, int], list[int] | None] = field(default_factory=dict)
    """By node, the value that an operator gave it; None: an operator skipped it."""
    ended_by_hand: dict[str, str] = field(default_factory=dict)
    """By task, the error code with which an operator ended it."""
    paused: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    retried: bool = False
    killed: bool = False


class Family:
    """All rows of one family, read when nothing runs."""

    def __init__(self, rows: dict[str, list[dict[str, Any]]], ledger: Ledger) -> None:
        self.ledger = ledger
        self.flows = {row["id"]: row for row in rows["horsies_workflows"]}
        self.tasks = {row["id"]: row for row in rows["horsies_tasks"]}
        self.nodes: dict[str, list[dict[str, Any]]] = {workflow_id: [] for workflow_id in self.flows}
        for row in sorted(rows["horsies_workflow_tasks"], key=lambda row: row["task_index"]):
            self.nodes[row["workflow_id"]].append(row)
        self.attempts = rows["horsies_task_attempts"]
        self.changes = rows["changes"]

    def check_rest(self, *, resumed: bool) -> None:
        for workflow_id, flow in self.flows.items():
            if flow["status"] == "PAUSED":
                assert not resumed
                assert self._asked(workflow_id, self.ledger.paused) or flow["on_error"] == "pause"
            elif flow["status"] == "RUNNING":
                assert not resumed
                assert any(
                    self._below(one["id"], workflow_id) for one in self.flows.values() if one["status"] == "PAUSED"
                )
            elif flow["status"] == "CANCELLED":
                assert self._asked(workflow_id, self.ledger.cancelled)
            assert (flow["completed_at"] is not None) is (flow["status"] in FLOW_ENDS)
            for node in self.nodes[workflow_id]:
                self._check_node(flow, node)
        self._check_tasks()
        self._check_changes()

    def _check_node(self, flow: dict[str, Any], node: dict[str, Any]) -> None:
        """A node agrees with its task or sub-workflow."""
        task, child = self.tasks.get(node["task_id"]), self.flows.get(node["sub_workflow_id"])
        assert (node["task_id"] is None) is (task is None)
        assert task is None or child is None
        place = node["workflow_id"], node["task_index"]
        if place in self.ledger.decided:
            self._check_decided(node, task, child)
            return
        if node["status"] not in NODE_ENDS:
            assert flow["status"] not in FLOW_ENDS
            # If the worker died, the end of a task is written to its node only after the resume.
            lost = flow["status"] == "PAUSED" and self.ledger.killed
            assert task is None or task["status"] in ("PENDING", "CLAIMED") or lost
            assert child is None or child["status"] not in FLOW_ENDS or flow["status"] == "PAUSED"
            return
        assert (node["result"] is None) is (node["status"] == "SKIPPED")
        if task is not None:
            agrees = {
                "COMPLETED": ["COMPLETED"],
                "FAILED": ["FAILED", "CANCELLED", "EXPIRED"],
                "SKIPPED": ["CANCELLED"],
            }
            assert task["status"] in agrees[node["status"]]
            assert node["status"] == "SKIPPED" or node["result"] == task["result"]
        assert node["task_id"] not in self.ledger.done_with[node["workflow_id"], node["task_index"]]
        if child is not None:
            assert (child["parent_workflow_id"], child["parent_task_index"]) == (flow["id"], node["task_index"])
            agrees = {"COMPLETED": ["COMPLETED"], "FAILED": ["FAILED", "CANCELLED"]}
            assert child["status"] in agrees[node["status"]]

    def _check_decided(self, node: dict[str, Any], task: dict[str, Any] | None, child: dict[str, Any] | None) -> None:
        """An operator's decision stands, and nothing runs below the node."""
        value = self.ledger.decided[node["workflow_id"], node["task_index"]]
        assert node["status"] == ("SKIPPED" if value is None else "COMPLETED")
        assert node["completed_at"] is not None
        stored = None if node["result"] is None else json.loads(node["result"])
        assert (stored is None and value is None) or (stored["ok"], stored["err"]) == (value, None)
        assert task is None or task["status"] in ("FAILED", "CANCELLED", "EXPIRED")
        assert child is None or child["status"] in ("FAILED", "CANCELLED")

    def _check_tasks(self) -> None:
        """A node has one task per opening, each ends once, and none is left that could run."""
        linked = {node["task_id"] for nodes in self.nodes.values() for node in nodes}
        made: Counter[tuple[str, int]] = Counter()
        for task in self.tasks.values():
            meta = json.loads(task["kwargs"])["__horsies_workflow_meta__"]
            made[meta["workflow_id"], meta["task_index"]] += 1
            assert task["status"] in TASK_ENDS or task["id"] in linked
            assert task["is_workflow_task"]
        opened = Counter(
            (change["workflow_id"], change["index"])
            for change in self.changes
            if change["what"] == "node" and change["old"] in NODE_ENDS
        )
        for place, count in made.items():
            assert count <= 1 + opened[place], f"{count} tasks of node {place}"
        ends = Counter(row["task_id"] for row in self.attempts if not row["will_retry"])
        assert set(ends.values()) <= {1}
        for task_id, accepted in self.ledger.accepted.items():
            assert len(accepted) == ends[task_id] == 1, f"task {task_id} has the outcomes {accepted}"
        told = Counter(row["task_id"] for row in self.attempts)
        for task_id, task in self.tasks.items():
            if task["status"] in TASK_ENDS:
                assert self.ledger.starts[task_id] == told[task_id]

    def _check_changes(self) -> None:
        allowed = FLOW_ARROWS | ({("FAILED", "RUNNING")} if self.ledger.retried else set())
        for change in self.changes:
            if change["what"] == "flow":
                assert (change["old"], change["new"]) in allowed
            elif change["old"] in NODE_ENDS:
                assert self.ledger.retried
                assert change["old"] != "COMPLETED" or change["new"] == "RUNNING"

    def _asked(self, workflow_id: str, ids: set[str]) -> bool:
        return any(self._below(workflow_id, one) for one in ids)

    def _below(self, workflow_id: str | None, above: str) -> bool:
        while workflow_id is not None and workflow_id != above:
            workflow_id = self.flows[workflow_id]["parent_workflow_id"]
        return workflow_id is not None


async def read(conn: asyncpg.Connection, ledger: Ledger) -> Family:
    rows = {table: [dict(row) for row in await conn.fetch(f"SELECT * FROM {table}")] for table in (*TABLES, "changes")}
    return Family(rows, ledger)


async def check_nothing_is_left(conn: asyncpg.Connection) -> None:
    """A reconciliation finds nothing, in its report as well as in its changes."""
    before = await _everything(conn)
    assert await stuck_workflows(conn, 0) == ()
    assert (await reconcile_all(conn, 0)).repairs == 0
    for (workflow_id,) in await conn.fetch("SELECT id FROM horsies_workflows"):
        assert not any(repair.changes for repair in await plan_repairs(conn, workflow_id, 0))
    assert await _everything(conn) == before


async def _everything(conn: asyncpg.Connection) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in await conn.fetch(f"SELECT * FROM {table} ORDER BY 1")] for table in TABLES]
