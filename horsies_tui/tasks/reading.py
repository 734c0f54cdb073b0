"""Reads one refresh of the window: a page, and by id those rows of the window that the page lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.query import TaskConditions
from horsies.views import task_page

if TYPE_CHECKING:
    from horsies.store.connect import Connection
    from horsies.views import TaskPage, TaskRow
    from horsies_tui.tasks.window import RowWindow, Slice


@dataclass(frozen=True, slots=True)
class Fresh:
    """`untold` are the ids of rows that the page lacks."""

    page: TaskPage
    untold: tuple[str, ...]
    matching: tuple[TaskRow, ...]
    others: tuple[TaskRow, ...]

    def put_into(self, window: RowWindow, part: Slice, *, at_rest: bool) -> None:
        window.refresh(part, self.page)
        window.renew(self.untold, self.matching, self.others)
        if at_rest:
            window.settle(part, self.page)


async def read_fresh(conn: Connection, parameters: TaskConditions, window: RowWindow, part: Slice) -> Fresh:
    """Does not change the window."""
    page = await task_page(conn, parameters, sort=window.sort, limit=part.limit, after=part.after)
    untold = tuple(window.untold(part, page))
    matching = await _by_ids(conn, parameters, untold)
    found = {row.id for row in matching}
    others = await _by_ids(conn, TaskConditions(), tuple(task_id for task_id in untold if task_id not in found))
    return Fresh(page, untold, matching, others)


async def _by_ids(conn: Connection, parameters: TaskConditions, ids: tuple[str, ...]) -> tuple[TaskRow, ...]:
    """The rows among these ids that match. Terms on ids are dropped: an id does not change."""
    if not ids:
        return ()
    return (await task_page(conn, parameters.among("id", ids), limit=len(ids))).rows
