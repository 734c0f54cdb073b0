"""A workflow once more as a new one, with the nodes it had."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.ids import new_task_id
from horsies.lifecycle.advancing import enqueue_ready
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg


async def replant(conn: asyncpg.Connection, workflow_id: str) -> str:
    """Within the caller's transaction: a copy that starts now, as a root of its own; its id.

    A deadline of a node that has passed is dropped, or nobody would start it.
    """
    copy = new_task_id()
    nodes = await conn.fetch(statement("replant_options"), workflow_id)
    await conn.execute(statement("replant_workflow"), workflow_id, copy)
    await conn.execute(
        statement("replant_nodes"),
        workflow_id,
        copy,
        [row["task_index"] for row in nodes],
        [new_task_id() for _ in nodes],
        [_without_past_deadline(row["task_options"], row["now"]) for row in nodes],
    )
    await enqueue_ready(conn, [copy])
    return copy


def _without_past_deadline(task_options: str | None, now: datetime) -> str | None:
    options = _tree(task_options)
    try:
        passed = isinstance(options, dict) and datetime.fromisoformat(options["good_until"]) <= now
    except (KeyError, TypeError, ValueError):  # none, or one that no worker could read either
        return task_options
    return to_json(options | {"good_until": None}) if passed else task_options


def _tree(text: str | None) -> Any:
    try:
        return None if text is None else parse_json(text)
    except CodecError:
        return None
