"""Pages of tasks under a filter, and the rows that an operation freezes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.pages import Cursor, Sort, TaskPage, TaskRow, cursor_of
from horsies.views.search import (
    Stretch,
    bound,
    matches_all,
    narrowed,
    over_tasks,
    rows_at_once,
    source_for,
    stretch_of,
)
from horsies.views.times import aware

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.query import TaskParameters

_FROZEN_AT_ONCE: Final = 50_000
_ASCENDING: Final = frozenset({Sort.OLDEST, Sort.WAITING, Sort.RUNNING})


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """A task as the operator saw it. A row that differs in status, owner, claim, try or error is not changed.

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
    """The newest audit row of an action on it; read only where the verb does not change the row."""


async def task_page(
    conn: asyncpg.Connection,
    parameters: TaskParameters,
    *,
    sort: Sort = Sort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> TaskPage:
    """Up to `limit` rows after a cursor, or before it with `backwards`.

    Rare matches are searched in parts: a page may have fewer rows, even none, and `reached` then says that the search
    continues with the next one.
    """
    parameters = narrowed(parameters)
    source = await source_for(conn, parameters, sort)
    ascending = (sort in _ASCENDING) is not backwards
    if matches_all(parameters, source):
        stretch = Stretch(source, ascending, after, None, limit + 1 + (after is not None))
    else:
        most = rows_at_once(parameters, source)
        stretch = await stretch_of(conn, parameters, source, ascending=ascending, after=after, most=most)
    found = await conn.fetch(over_tasks(statement(__name__, "view_task_page")), *bound(stretch, parameters), limit + 1)
    now, rows = found[0]["now"], [TaskRow(*map(aware, row[1:])) for row in found if row["id"] is not None]
    further = cursor_of(rows[limit - 1], sort) if len(rows) > limit else stretch.edge
    back = cursor_of(rows[0], sort) if rows and after else after
    shown = rows[:limit]
    return TaskPage(
        rows=tuple(reversed(shown) if backwards else shown),
        now=now,
        next=back if backwards else further,
        previous=further if backwards else back,
        reached=stretch.edge if len(rows) <= limit else None,
    )


async def matching(conn: asyncpg.Connection, parameters: TaskParameters, limit: int) -> list[ExpectedState]:
    """The newest `limit` matches, however old they are: many short statements, each bounded."""
    parameters = narrowed(parameters)
    source = await source_for(conn, parameters, Sort.NEWEST)
    found: list[ExpectedState] = []
    after: Cursor | None = None
    while True:
        stretch = await stretch_of(conn, parameters, source, ascending=False, after=after, most=_FROZEN_AT_ONCE)
        rows = await conn.fetch(
            over_tasks(statement(__name__, "view_task_matching")), *bound(stretch, parameters), limit - len(found)
        )
        found += [ExpectedState(*map(aware, row)) for row in rows]
        after = stretch.edge
        if after is None or len(found) >= limit:
            return found
