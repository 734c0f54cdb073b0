"""Create the rows of a plan, or of a copy: the workflow RUNNING, its nodes PENDING or READY, its first tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import to_json
from horsies.domain.ids import new_task_id
from horsies.lifecycle.advancing import enqueue_ready
from horsies.lifecycle.reopening import map_without_past_deadline, without_past_deadline
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import asyncpg

    from horsies.domain.plan import NodePlan, WorkflowPlan


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
