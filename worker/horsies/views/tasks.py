"""Pages of tasks under a filter, and the rows that an operation freezes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.pages import Sort, TaskPage, TaskRow, cursor_of
from horsies.views.progress import progress_of
from horsies.views.search import TASKS, answerable, duplicates_of, rows_at_once, source_for
from horsies.views.searching import Cursor, Stretch, read_newest, read_page, stretch_of

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.query import TaskConditions

_ASCENDING: Final = frozenset({Sort.OLDEST, Sort.WAITING, Sort.RUNNING})


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """A task as the operator saw it. A row that now differs in status, owner, claim, attempt or error is not changed.

    Statements that fill it select its fields in this order, so that `ExpectedState(*row)` builds one.
    """

    task_id: str
    task_name: str
    queue_name: str
    status: str
    worker_id: str | None
    """claimed_by_worker_id"""
    claimed_at: datetime | None
    retry_count: int
    error_code: str | None
    good_until: datetime | None
    finalizing_at: datetime | None
    is_workflow_task: bool
    last_action: int | None = None
    """The newest audit row of an action on it; read only if the verb does not change the row."""


async def task_page(
    conn: asyncpg.Connection,
    wanted: TaskConditions,
    *,
    sort: Sort = Sort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> TaskPage:
    """Read up to `limit` rows after a cursor, or before it with `backwards`.

    Rare matches are searched in parts: a page may have fewer rows, even none, and `reached` then says that the search
    continues with the next one.
    """
    wanted = await answerable(conn, wanted)
    source = await source_for(conn, wanted, sort)
    ascending = (sort in _ASCENDING) is not backwards
    if source.matches_all(wanted):
        stretch = Stretch(source, ascending, after, None, limit + 1)
    else:
        most = rows_at_once(wanted, source)
        stretch = await stretch_of(conn, TASKS, wanted, source, ascending=ascending, after=after, most=most)
    page = await read_page(
        conn,
        TASKS,
        wanted,
        stretch,
        statement(__name__, "view_task_page"),
        limit=limit,
        row_of=TaskRow,
        cursor_of=partial(cursor_of, sort=sort),
        backwards=backwards,
    )
    reports = await progress_of(conn, [row.run_key for row in page.rows if row.run_key is not None])
    swallowed = await duplicates_of(conn, [row.id for row in page.rows if row.unique_key is not None])
    if not reports and not swallowed:
        return page
    rows = (
        replace(row, progress=reports.get(row.run_key or ("", row.created_at)), duplicates=swallowed.get(row.id))
        for row in page.rows
    )
    return replace(page, rows=tuple(rows))


async def matching(conn: asyncpg.Connection, wanted: TaskConditions, limit: int) -> list[ExpectedState]:
    """Read the newest `limit` matches of any age."""
    wanted = await answerable(conn, wanted)
    source = await source_for(conn, wanted, Sort.NEWEST)
    selecting = statement(__name__, "view_task_matching")
    return [ExpectedState(*row) for row in await read_newest(conn, TASKS, wanted, source, selecting, limit)]
