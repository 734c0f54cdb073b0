"""Pages and counts of workflows under a filter, newest first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from horsies.domain.states import WorkflowStatus
from horsies.query import WorkflowParameters
from horsies.store.statements import statement
from horsies.views.counts import Count, StateCounts
from horsies.views.times import aware
from horsies.views.workflow_search import (
    LIVE,
    UNSUCCESSFUL,
    Source,
    Stretch,
    WorkflowCursor,
    bound,
    matches_all,
    over_workflows,
    source_for,
    stretch_of,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import asyncpg

_FROZEN_AT_ONCE: Final = 50_000

WorkflowValue: TypeAlias = Literal["name", "definition_key", "error_code"]


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow in a list, in the column order of the statement. Compare its times with the `now` of their page."""

    id: str
    name: str
    status: str
    on_error: str
    definition_key: str | None
    parent_workflow_id: str | None
    parent_task_index: int | None
    root_workflow_id: str
    """Its own id if it has no parent."""
    depth: int
    created_at: datetime
    """The order of lists; never changes."""
    sent_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    total: int
    """How many nodes it has; the sum of the next five."""
    completed: int
    failed: int
    skipped: int
    running: int
    waiting: int
    """PENDING, READY or ENQUEUED."""
    error_code: str | None
    """The code of the stored error; a COMPLETED workflow may have one, too."""
    failed_node: str | None
    """node_id (or the index, if it has none) of the failed node with the lowest index."""

    @property
    def done(self) -> int:
        """How many nodes have ended, in any status."""
        return self.completed + self.failed + self.skipped

    def run(self, now: datetime) -> timedelta:
        """From its start to its end or now; upstream stores no end time when it cancels."""
        is_over = self.status in ("COMPLETED", "FAILED", "CANCELLED")
        return (self.completed_at or (self.updated_at if is_over else now)) - (self.started_at or self.sent_at)


@dataclass(frozen=True, slots=True)
class WorkflowPage:
    """Newest first. A cursor that is None: there are no further rows in that direction."""

    rows: tuple[WorkflowRow, ...]
    now: datetime
    next: WorkflowCursor | None
    previous: WorkflowCursor | None
    reached: WorkflowCursor | None
    """Set if the search stopped at the limit of one refresh before the page was full; `next` continues there."""


@dataclass(frozen=True, slots=True)
class WorkflowRest:
    """The part that is not counted yet: of this source, from here on."""

    source: Source
    after: WorkflowCursor


class WorkflowCounts(StateCounts[WorkflowRest]):
    """By status. `workflow_counts` continues a part of `workflow_count_parts`."""


async def workflow_page(
    conn: asyncpg.Connection,
    parameters: WorkflowParameters,
    *,
    limit: int = 100,
    after: WorkflowCursor | None = None,
    backwards: bool = False,
) -> WorkflowPage:
    """Up to `limit` rows after a cursor, or before it with `backwards`; rows are newest first either way.

    Rare matches are searched in parts: a page may have fewer rows, even none, and `reached` then says that the search
    continues with the next one.
    """
    source = source_for(parameters)
    if matches_all(parameters, source):
        stretch = Stretch(source, backwards, after, None, limit + 1 + (after is not None))
    else:
        stretch = await stretch_of(conn, parameters, source, ascending=backwards, after=after, most=source.rows_at_once)
    found = await conn.fetch(
        over_workflows(statement(__name__, "view_workflow_page")), *bound(stretch, parameters), limit + 1
    )
    now, rows = found[0]["now"], [WorkflowRow(*map(aware, tuple(row)[1:])) for row in found if row["id"] is not None]
    further = workflow_cursor_of(rows[limit - 1]) if len(rows) > limit else stretch.edge
    back = workflow_cursor_of(rows[0]) if rows and after else after
    shown = rows[:limit]
    return WorkflowPage(
        rows=tuple(reversed(shown) if backwards else shown),
        now=now,
        next=back if backwards else further,
        previous=further if backwards else back,
        reached=stretch.edge if len(rows) <= limit else None,
    )


def workflow_cursor_of(row: WorkflowRow) -> WorkflowCursor:
    return WorkflowCursor(row.created_at, row.id)


async def workflow_matching(conn: asyncpg.Connection, parameters: WorkflowParameters, limit: int) -> list[str]:
    """The ids of the newest `limit` matches, however old they are: many short statements, each bounded."""
    source = source_for(parameters)
    found: list[str] = []
    after: WorkflowCursor | None = None
    while True:
        stretch = await stretch_of(conn, parameters, source, after=after, most=_FROZEN_AT_ONCE)
        left = limit - len(found)
        rows = await conn.fetch(
            over_workflows(statement(__name__, "view_workflow_matching")), *bound(stretch, parameters), left
        )
        found += [row["id"] for row in rows]
        after = stretch.edge
        if after is None or len(found) >= limit:
            return found


async def workflow_counts(
    conn: asyncpg.Connection, parameters: WorkflowParameters, rest: WorkflowRest | None = None
) -> WorkflowCounts:
    """How many match, by status. Bounded like a page: `reached` and `Count.at_least` say where counting stopped.

    With `rest` only the part not counted yet; added to the earlier counts it gives the total.
    """
    states: dict[str, Count] = {}
    reached: datetime | None = None
    left: WorkflowRest | None = None
    parts = workflow_count_parts(parameters)
    for part in parts:
        source = source_for(part) if rest is None else rest.source
        after = None if rest is None else rest.after
        stretch = await stretch_of(conn, part, source, after=after, most=source.rows_at_once)
        rows = await conn.fetch(over_workflows(statement(__name__, "view_workflow_counts")), *bound(stretch, part))
        states |= {status: Count(number, stretch.edge is not None) for status, number in rows}
        if stretch.edge is not None:
            reached = max(stretch.edge.time, reached or stretch.edge.time)
            left = WorkflowRest(source, stretch.edge) if len(parts) == 1 else None
    size = await conn.fetchval(statement(__name__, "view_workflow_table_size"))
    return WorkflowCounts(states, reached, size if size >= 0 else None, left)


def workflow_count_parts(parameters: WorkflowParameters) -> list[WorkflowParameters]:
    """Filters that may be counted one by one; no workflow matches two of them."""
    wanted = parameters.statuses or tuple(status.value for status in WorkflowStatus)
    groups = (LIVE, (WorkflowStatus.COMPLETED.value,), UNSUCCESSFUL)
    found = (tuple(status for status in group if status in wanted) for group in groups)
    return [replace(parameters, statuses=statuses) for statuses in found if statuses]


async def workflow_values(conn: asyncpg.Connection, by: WorkflowValue, *, limit: int = 200) -> tuple[str, ...]:
    """The values of the newest workflows in that column, the most frequent first; for codes, of those that ended
    badly."""
    wanted = WorkflowParameters(statuses=UNSUCCESSFUL if by == "error_code" else None)
    source = source_for(wanted)
    stretch = Stretch(source, ascending=False, after=None, edge=None, most=source.rows_at_once)
    # One more, because workflows without such a value are counted as well.
    rows = await conn.fetch(
        over_workflows(statement(__name__, "view_workflow_values")), *bound(stretch, wanted), by, limit + 1
    )
    return tuple(row["value"] for row in rows if row["value"] is not None)[:limit]
