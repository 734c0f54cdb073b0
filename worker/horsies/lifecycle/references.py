"""Results that are too large for the kwargs of a task, read from the rows that store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.injection import NodeRef, NodeTexts, references, resolve
from horsies.store.statements import statement

if TYPE_CHECKING:
    import asyncpg


async def resolved(conn: asyncpg.Connection, kwargs: str | None) -> str | None:
    """The kwargs with each reference replaced by its text; kwargs without references need no read."""
    refs = list(references(kwargs))
    if kwargs is None or not refs:
        return kwargs
    keys = [ref.workflow_id for ref in refs], [ref.task_index for ref in refs]
    rows = await conn.fetch(statement(__name__, "reference_texts"), *keys)
    found = {NodeRef(workflow_id, index): NodeTexts(*texts) for workflow_id, index, *texts in rows}
    return resolve(kwargs, found)
