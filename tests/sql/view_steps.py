"""Short steps for the tests of the views: a reader's connection, rows in, what a filter finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from horsies.query import TaskParameters, parameters, parse
from horsies.views import READER_SETTINGS, Sort, task_page

if TYPE_CHECKING:
    from horsies.views import Cursor, TaskPage, TaskRow


async def reader(database: str) -> asyncpg.Connection:
    """As the console and the CLI open it."""
    return await asyncpg.connect(database, server_settings=dict(READER_SETTINGS), statement_cache_size=0)


def wanted(text: str) -> TaskParameters:
    return parameters(parse(text))


async def insert(conn: asyncpg.Connection, task_id: str, **columns: str) -> None:
    """A task; a column is given as an SQL expression."""
    given = {"id": f"'{task_id}'", "task_name": "'demo.add'", "queue_name": "'default'", **columns}
    await conn.execute(f"INSERT INTO horsies_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def every_row(
    conn: asyncpg.Connection,
    text: str = "",
    *,
    sort: Sort = Sort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> list[TaskRow]:
    """All rows of one direction, page by page."""
    found: list[TaskRow] = []
    while True:
        page: TaskPage = await task_page(conn, wanted(text), sort=sort, limit=limit, after=after, backwards=backwards)
        assert len(page.rows) <= limit
        found = [*page.rows, *found] if backwards else [*found, *page.rows]
        after = page.previous if backwards else page.next
        if after is None:
            return found


async def every_id(
    conn: asyncpg.Connection, text: str = "", *, sort: Sort = Sort.NEWEST, limit: int = 100
) -> list[str]:
    return [row.id for row in await every_row(conn, text, sort=sort, limit=limit)]
