"""Steps for tests of the views: a reader's connection, rows, and the results of filters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from horsies.query import TaskConditions, parse, task_conditions
from horsies.views import READER_SETTINGS, Cursor, Sort, TaskPage, TaskRow, task_page

READ = """
SELECT (SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_user_tables
         WHERE relname IN ('horsies_tasks', 'horsies_task_attempts', 'horsies_heartbeats', 'horsies_worker_states',
                           'horsies_operator_actions', 'horsies_workflows', 'horsies_workflow_tasks'))::bigint AS whole,
       (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint AS entries
"""


async def reader(database: str) -> asyncpg.Connection:
    """A connection as the console and the CLI open it."""
    return await asyncpg.connect(database, server_settings=dict(READER_SETTINGS), statement_cache_size=0)


def wanted(text: str) -> TaskConditions:
    return task_conditions(parse(text))


async def insert(conn: asyncpg.Connection, task_id: str, **columns: str) -> None:
    """A task; a column is given as an SQL expression."""
    given = {"id": f"'{task_id}'", "task_name": "'demo.add'", "queue_name": "'default'", **columns}
    await conn.execute(f"INSERT INTO horsies_tasks ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def snapshot(conn: asyncpg.Connection, worker_id: str, ago_s: float = 0.0, **columns: str) -> None:
    """What a worker told of itself so long ago; a column is given as an SQL expression."""
    given = {
        "worker_id": f"'{worker_id}'",
        "snapshot_at": f"now() - {ago_s} * interval '1 s'",
        "hostname": "'web-1'",
        "pid": "7",
        "processes": "8",
        "max_claim_batch": "8",
        "max_claim_per_worker": "8",
        "queues": "'{default}'",
        "worker_started_at": "now() - interval '1 h'",
        **columns,
    }
    await conn.execute(f"INSERT INTO horsies_worker_states ({', '.join(given)}) VALUES ({', '.join(given.values())})")


async def every_row(
    conn: asyncpg.Connection,
    text: str = "",
    *,
    sort: Sort = Sort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> list[TaskRow]:
    """All rows in one direction, page by page."""
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


async def counters(conn: asyncpg.Connection) -> tuple[int, int]:
    await conn.execute("SELECT pg_stat_force_next_flush()")
    row = await conn.fetchrow(READ)
    return row["whole"], row["entries"]


async def cost(conn: asyncpg.Connection, read: Callable[[], Awaitable[Any]]) -> tuple[int, int]:
    """Rows read by sequential scans, and index entries read."""
    before = await counters(conn)
    await read()
    after = await counters(conn)
    return after[0] - before[0], after[1] - before[1]
