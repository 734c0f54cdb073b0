"""Nodes that are sub-workflows: those that wait for their child workflow, and the start of the child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.domain.codec import CodecError
from horsies.domain.ids import new_task_id
from horsies.domain.states import WorkflowTaskStatus
from horsies.lifecycle.advancing import Advanced, FamilyLockedError, end_nodes, try_families, update_workflows
from horsies.lifecycle.completing import NodeEnd
from horsies.lifecycle.create_workflow import ParentNode, create_workflow
from horsies.lifecycle.node_tasks import arguments_of, ready_nodes, resolved, unreadable
from horsies.store.connect import transaction
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection

    import asyncpg

    from horsies.domain.plan import WorkflowPlan

# A definition that contains itself grows by a hundred levels a second until the disk is full.
MOST_LEVELS = 100


class TooDeepError(Exception):
    """The error for a child below MOST_LEVELS others: its definition probably contains itself."""


@dataclass(frozen=True, slots=True)
class ReadyChild:
    """A READY node that waits for a worker to build its child workflow."""

    workflow_id: str
    index: int
    name: str
    definition_key: str
    kwargs_json: str
    """The arguments that a task of this node would get, with the results of its dependencies."""
    task_options: str | None = None
    """The task options; they contain only the trace of the workflow, if it has one."""


async def ready_children(
    conn: asyncpg.Connection, workflow_ids: Collection[str] | None, limit: int
) -> list[tuple[str, int]]:
    """Return workflow and index of nodes that wait for their child, in these RUNNING workflows (None: in all)."""
    asked = None if workflow_ids is None else list(workflow_ids)
    return [(row[0], row[1]) for row in await conn.fetch(statement(__name__, "child_waiting"), asked, limit)]


async def read_child(conn: asyncpg.Connection, workflow_id: str, index: int) -> ReadyChild | None:
    """Return the data to build this child; None if the node no longer waits. An unreadable node becomes FAILED."""
    nodes = await ready_nodes(conn, [(workflow_id, index)])
    if not nodes:
        return None
    (node,) = nodes
    kwargs = (await arguments_of(conn, nodes))[node.key]
    if isinstance(kwargs, CodecError):
        await _end(conn, unreadable(node, kwargs))
        return None
    given = await resolved(conn, kwargs) or "{}"
    return ReadyChild(*node.key, node.task_name, node.sub_definition_key or "", given, node.task_options)


async def start_child(conn: asyncpg.Connection, workflow_id: str, index: int, plan: WorkflowPlan) -> str | None:
    """Start the child of this node with its root tasks, in one transaction. Return None if another worker has done so.

    A worker that builds it later finds the node no longer READY; one that dies before the commit leaves it READY.
    Raises TooDeepError below MOST_LEVELS, and FamilyLockedError, without waiting, if another session has locked the
    family.
    """
    child_id = new_task_id()
    async with transaction(conn):
        await _lock(conn, workflow_id)
        parent = await conn.fetchrow(statement(__name__, "child_parent"), workflow_id, index)
        if parent is None:
            return None
        if parent["depth"] >= MOST_LEVELS:
            raise TooDeepError(f"it would be {MOST_LEVELS + 1} levels deep: does its definition contain itself?")
        node = ParentNode(workflow_id, index, parent["depth"], parent["root"])
        await create_workflow(conn, plan, workflow_id=child_id, parent=node)
        await conn.execute(statement(__name__, "child_link"), workflow_id, index, child_id)
        await update_workflows(conn, [child_id])  # a workflow without nodes ends at once
    return child_id


async def fail_child(conn: asyncpg.Connection, workflow_id: str, index: int, result_json: str) -> Advanced:
    """End the node as FAILED, in one transaction, because its child cannot be built here.

    Changes nothing if another worker that has the definition has built the child in the meantime.
    """
    return await _end(conn, NodeEnd(workflow_id, index, WorkflowTaskStatus.FAILED, result_json))


async def _end(conn: asyncpg.Connection, end: NodeEnd) -> Advanced:
    async with transaction(conn):
        await _lock(conn, end.workflow_id)
        if await conn.fetchrow(statement(__name__, "child_parent"), end.workflow_id, end.task_index) is None:
            return Advanced()
        return await end_nodes(conn, [end])


async def _lock(conn: asyncpg.Connection, workflow_id: str) -> None:
    if not all((await try_families(conn, [workflow_id])).values()):
        raise FamilyLockedError(f"another session has locked the workflow {workflow_id}")
