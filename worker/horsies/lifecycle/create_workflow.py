"""Create the rows of a plan, of a copy or of a child: the workflow, its nodes PENDING or READY, and its first tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import CodecError, to_json
from horsies.domain.ids import new_task_id
from horsies.domain.states import WorkflowTaskStatus
from horsies.lifecycle.advancing import (
    Advanced,
    FamilyLockedError,
    end_nodes,
    enqueue_ready,
    try_families,
    update_workflows,
)
from horsies.lifecycle.completing import NodeEnd
from horsies.lifecycle.node_tasks import arguments_of, ready_nodes, resolved, unreadable
from horsies.lifecycle.reopening import map_without_past_deadline, without_past_deadline
from horsies.store.connect import transaction
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    import asyncpg

    from horsies.domain.plan import NodePlan, WorkflowPlan


# A definition that contains itself grows by a hundred levels a second until the disk is full.
MOST_LEVELS = 100


@dataclass(frozen=True, slots=True)
class ParentNode:
    """The node that runs the new workflow; `depth` is that of the node's own workflow."""

    workflow_id: str
    index: int
    depth: int
    root_workflow_id: str


@dataclass(frozen=True, slots=True)
class CreatedWorkflow:
    """The result of a creation. With `other_name`, a workflow of that name has this id, and nothing was changed."""

    workflow_id: str
    existing: bool = False
    other_name: str | None = None
    difference: str | None = None
    """The difference to an existing workflow of the same name, if the caller asked for it."""


async def create_workflow(
    conn: asyncpg.Connection,
    plan: WorkflowPlan,
    *,
    workflow_id: str,
    sent_at: datetime | None = None,
    parent: ParentNode | None = None,
) -> CreatedWorkflow:
    """Create the workflow in the caller's transaction; with a `parent`, under its family's lock. Keeps an existing id.

    A concurrent insert of the same id waits here until the first transaction has committed.
    """
    columns = plan.name, plan.on_error, plan.output_index, plan.success_policy, plan.definition_key, sent_at
    family: tuple[Any, ...] = (None, None, 0, None)
    if parent is not None:
        family = (parent.workflow_id, parent.index, parent.depth + 1, parent.root_workflow_id)
    inserted = await conn.fetchval(statement(__name__, "insert_workflow"), workflow_id, *columns, *family)
    if inserted is None:
        name = await conn.fetchval(statement(__name__, "workflow_name"), workflow_id)
        return CreatedWorkflow(workflow_id, existing=True, other_name=None if name == plan.name else name)
    if plan.nodes:
        nodes = map(list, zip(*map(_node, plan.nodes), strict=True))
        await conn.execute(statement(__name__, "insert_nodes"), workflow_id, *nodes)
        await enqueue_ready(conn, [workflow_id])
    return CreatedWorkflow(workflow_id)


async def difference(conn: asyncpg.Connection, plan: WorkflowPlan, workflow_id: str) -> str | None:
    """Return in words how a stored workflow of the same name differs from the plan; None if it does not.

    Its nodes are compared by their tasks, arguments and dependencies; each start has other ids and traces.
    """
    columns = zip(*map(_node, plan.nodes), strict=True) if plan.nodes else ((),) * 15
    _, index, _, names, kwargs, _, _, needs, sources, *_ = map(list, columns)
    row = await conn.fetch(
        statement(__name__, "first_difference"), workflow_id, plan.definition_key, index, names, kwargs, needs, sources
    )
    if not row:
        return None
    what, node = row[0][0], row[0][1]
    return f"{what} the node {node}" if node is not None else what


def _node(node: NodePlan) -> tuple[Any, ...]:
    return (
        new_task_id(),
        node.index,
        node.node_id,
        node.task_name,
        "{}" if node.kwargs_json is None else node.kwargs_json,
        node.queue_name,
        node.priority,
        _array(node.dependencies),
        to_json(dict(node.args_from)) if node.args_from else None,
        None if node.ctx_from is None else _array(node.ctx_from),
        node.allow_failed_deps,
        node.join,
        node.min_success,
        node.task_options,
        node.sub_definition_key,
    )


def _array(items: Iterable[object]) -> str:
    """PostgreSQL's text form of an array: nested arrays must be rectangular, so each is passed as text."""
    quoted = (str(item).replace("\\", "\\\\").replace('"', '\\"') for item in items)
    return "{" + ",".join(f'"{item}"' for item in quoted) + "}"


async def copy_workflow(conn: asyncpg.Connection, workflow_id: str) -> str:
    """Within the caller's transaction: start a copy now, as a root workflow; returns its id.

    A node's deadline that has passed is dropped, because no worker would start the node.
    """
    copy = new_task_id()
    nodes = await conn.fetch(statement(__name__, "copied_options"), workflow_id)
    await conn.execute(statement(__name__, "copy_workflow_row"), workflow_id, copy)
    await conn.execute(
        statement(__name__, "copy_nodes"),
        workflow_id,
        copy,
        [row["task_index"] for row in nodes],
        [new_task_id() for _ in nodes],
        [without_past_deadline(row["task_options"], row["now"]) for row in nodes],
        [map_without_past_deadline(row["map_kwargs"], row["now"]) for row in nodes],
    )
    await enqueue_ready(conn, [copy])
    return copy


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
