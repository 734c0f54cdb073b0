"""A workflow once more as a new one, with the nodes it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.ids import new_task_id
from horsies.lifecycle.advancing import enqueue_ready
from horsies.lifecycle.deadlines import map_without_past_deadline, without_past_deadline
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg


async def copy_workflow(conn: asyncpg.Connection, workflow_id: str) -> str:
    """Within the caller's transaction: a copy that starts now, as a root of its own; its id.

    A deadline of a node that has passed is dropped, or nobody would start it.
    """
    copy = new_task_id()
    nodes = await conn.fetch(statement(__name__, "replant_options"), workflow_id)
    await conn.execute(statement(__name__, "replant_workflow"), workflow_id, copy)
    await conn.execute(
        statement(__name__, "replant_nodes"),
        workflow_id,
        copy,
        [row["task_index"] for row in nodes],
        [new_task_id() for _ in nodes],
        [without_past_deadline(row["task_options"], row["now"]) for row in nodes],
        [map_without_past_deadline(row["map_kwargs"], row["now"]) for row in nodes],
    )
    await enqueue_ready(conn, [copy])
    return copy
