"""Rows of workflows and nodes, with the states of the nodes' tasks and child workflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.states import WorkflowTaskStatus
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    import asyncpg

TERMINAL_NODES = frozenset(str(status) for status in WorkflowTaskStatus if status.is_terminal)
_ARRAYS = frozenset({"dependencies", "workflow_ctx_from"})
_JOINS = frozenset({"all", "any", "quorum"})


@dataclass(frozen=True, slots=True)
class FamilyWorkflowRow:
    """A row of `family_workflows`, in its column order. `now` is the server's clock."""

    id: str
    name: str
    status: str
    on_error: str
    success_policy: str | None
    has_error: bool
    parent_workflow_id: str | None
    parent_index: int | None
    depth: int
    root: str
    updated_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of `family_nodes`, in its column order."""

    workflow_id: str
    index: int
    node_id: str
    task_name: str
    status: str
    dependencies: tuple[int, ...]
    context_from: tuple[str, ...]
    allow_failed_deps: bool
    join: str
    min_success: int | None
    is_subworkflow: bool
    task_id: str | None
    sub_workflow_id: str | None
    completed_at: datetime | None
    task_status: str | None = None
    """The status of the node's task; None without a task, or if its row was deleted."""
    task_started_at: datetime | None = None
    task_ended_at: datetime | None = None
    task_has_result: bool = False
    child_status: str | None = None
    child_names_another_parent: bool = False
    """True if the row of its child names another node as its parent."""

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_NODES

    @property
    def needs(self) -> int | None:
        """Return how many dependencies must complete, like the fragment `join_needs`; None if the row is damaged."""
        if self.join not in _JOINS or (self.join == "quorum" and self.min_success is None):
            return None
        if self.join == "all" or not self.dependencies:
            return 0
        return 1 if self.join == "any" else self.min_success

    def joined(self, states: Mapping[int, str], ids: Mapping[str, int]) -> str | None:
        """Return the new status of a PENDING node by the states of its dependencies, like the fragment `join_verdict`.

        None if it still waits, or its row is damaged. `ids` maps node ids of the workflow to indexes.
        """
        if self.needs is None:
            return None
        have = [states[index] for index in self.dependencies]
        completed = have.count(WorkflowTaskStatus.COMPLETED)
        still_open = sum(state not in TERMINAL_NODES for state in have)
        if self.join == "all":
            if still_open:
                return None
            possible = self.allow_failed_deps or completed == len(have)
        else:
            possible = completed + still_open >= self.needs
        if not possible:
            return WorkflowTaskStatus.SKIPPED
        context_open = any(states[ids[one]] not in TERMINAL_NODES for one in self.context_from if one in ids)
        if completed < self.needs or context_open:
            return None
        return WorkflowTaskStatus.READY if self.is_subworkflow else WorkflowTaskStatus.ENQUEUED


async def read_flows(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> dict[str, FamilyWorkflowRow]:
    """Read workflows by id, parents before their children."""
    rows = await conn.fetch(statement(__name__, "family_workflows"), list(workflow_ids))
    return {row["id"]: FamilyWorkflowRow(*row) for row in rows}


async def read_nodes(conn: asyncpg.Connection, workflow_ids: Collection[str]) -> dict[str, list[NodeRow]]:
    """Read nodes by workflow, in the order of their index."""
    nodes: dict[str, list[NodeRow]] = {workflow_id: [] for workflow_id in workflow_ids}
    for row in await conn.fetch(statement(__name__, "family_nodes"), list(workflow_ids)):
        columns: list[Any] = [tuple(value or ()) if name in _ARRAYS else value for name, value in row.items()]
        nodes[row["workflow_id"]].append(NodeRow(*columns))
    return nodes


async def family_of(conn: asyncpg.Connection, root: str) -> list[str]:
    """Read the ids of all workflows of a family."""
    return [workflow_id for (workflow_id,) in await conn.fetch(statement(__name__, "family_of"), root)]
