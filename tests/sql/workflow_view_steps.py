"""Steps for tests of the workflow views: insert rows, and read the results of filters."""

from __future__ import annotations

import asyncpg

from horsies.query import WorkflowConditions, parse_workflows, workflow_conditions
from horsies.views import Cursor, NodeView, WorkflowRow, WorkflowStory, workflow_page, workflow_story


def wanted_workflows(text: str) -> WorkflowConditions:
    return workflow_conditions(parse_workflows(text))


async def insert_workflow(conn: asyncpg.Connection, workflow_id: str, **columns: str) -> None:
    """A workflow; a column is given as an SQL expression."""
    given = {"id": f"'{workflow_id}'", "name": "'order'", "status": "'RUNNING'", **columns}
    await conn.execute(f"INSERT INTO horsies_workflows ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def insert_node(conn: asyncpg.Connection, workflow_id: str, index: int, status: str, **columns: str) -> None:
    given = {
        "id": "gen_random_uuid()",
        "workflow_id": f"'{workflow_id}'",
        "task_index": str(index),
        "node_id": f"'n{index}'",
        "task_name": "'demo.add'",
        "status": f"'{status}'",
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_workflow_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def every_workflow(
    conn: asyncpg.Connection,
    text: str = "",
    *,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> list[WorkflowRow]:
    """All rows in one direction, page by page."""
    found: list[WorkflowRow] = []
    while True:
        page = await workflow_page(conn, wanted_workflows(text), limit=limit, after=after, backwards=backwards)
        assert len(page.rows) <= limit
        found = [*page.rows, *found] if backwards else [*found, *page.rows]
        after = page.previous if backwards else page.next
        if after is None:
            return found


async def every_workflow_id(conn: asyncpg.Connection, text: str = "", *, limit: int = 100) -> list[str]:
    return [row.id for row in await every_workflow(conn, text, limit=limit)]


async def told(conn: asyncpg.Connection, text: str) -> WorkflowStory:
    story = await workflow_story(conn, text)
    assert isinstance(story, WorkflowStory)
    return story


async def node_of(conn: asyncpg.Connection, workflow_id: str, index: int) -> NodeView:
    return {node.index: node for node in (await told(conn, workflow_id)).nodes}[index]
