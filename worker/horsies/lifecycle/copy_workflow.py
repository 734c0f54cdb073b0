"""Copy a workflow: a new workflow with the same nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.ids import new_task_id
from horsies.lifecycle.advancing import enqueue_ready
from horsies.lifecycle.deadlines import map_without_past_deadline, without_past_deadline
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg


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
