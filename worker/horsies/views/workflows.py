"""Workflows under a filter: their rows and orders, the sources in which they are searched, each with its index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from horsies.domain.states import WorkflowStatus
from horsies.query import WorkflowConditions
from horsies.store.statements import STATES, statement
from horsies.views.counts import Count, StateCounts
from horsies.views.progress import part_done
from horsies.views.searching import (
    Cursor,
    Page,
    Rest,
    Source,
    Stretch,
    Table,
    over,
    read_newest,
    read_page,
    stretch_of,
    table_size,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import asyncpg

WorkflowValue: TypeAlias = Literal["name", "definition_key", "error_code"]
_LIVE_STATUSES: Final = ("PENDING", "RUNNING", "PAUSED")
_UNSUCCESSFUL_STATUSES: Final = ("FAILED", "CANCELLED")


class WorkflowSort(StrEnum):
    """Orders that an index serves. OPEN shows only unfinished workflows, ENDED only ended ones."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OPEN = "open"
    ENDED = "ended"

    @property
    def is_ascending(self) -> bool:
        return self in (WorkflowSort.OLDEST, WorkflowSort.OPEN)


WORKFLOWS: Final = Table("horsies_workflows", "workflow", statement(__name__, "view_workflow_candidates"))

_SENT: Final = frozenset({"since", "until"})

CREATED: Final = Source("created", "true", 10_000, time="created_at", serves=_SENT)
LIVE: Final = Source(
    "live",
    f"status IN {STATES['open_workflows']}",
    10_000,
    time="created_at",
    serves=_SENT,
    statuses=frozenset(_LIVE_STATUSES),
)
UNSUCCESSFUL: Final = Source(
    "unsuccessful",
    "status IN ('FAILED', 'CANCELLED')",
    3_000,
    time="created_at",
    serves=_SENT,
    statuses=frozenset(_UNSUCCESSFUL_STATUSES),
)
# The index does not contain the id: rows of one moment are read together and sorted.
ENDED: Final = Source(
    "ended",
    f"status IN {STATES['ended_workflows']}",
    10_000,
    time="COALESCE(completed_at, updated_at, created_at)",
    statuses=frozenset({"COMPLETED", *_UNSUCCESSFUL_STATUSES}),
)
BY_ID: Final = Source("ids", statement(__name__, "view_workflows_by_id"), 10_000, serves=frozenset({"id"}))
OF_PARENTS: Final = Source(
    "parents", statement(__name__, "view_workflows_of_parents"), 10_000, serves=frozenset({"parent"})
)


def _source_for(wanted: WorkflowConditions, sort: WorkflowSort = WorkflowSort.NEWEST) -> Source:
    """Return the smallest source that contains all matches, in this order."""
    match sort:
        case WorkflowSort.OPEN:
            return LIVE
        case WorkflowSort.ENDED:
            return ENDED
    if wanted.exact("id") is not None:
        return BY_ID
    if wanted.exact("parent") is not None:
        return OF_PARENTS
    among = frozenset(wanted.statuses or ())
    if among and among <= set(_LIVE_STATUSES):
        return LIVE
    return UNSUCCESSFUL if among and among <= set(_UNSUCCESSFUL_STATUSES) else CREATED


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
    """The id of the root workflow; its own id without a parent."""
    depth: int
    created_at: datetime
    """The creation time, which orders lists and never changes."""
    sent_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    total: int
    """Number of its nodes; the sum of the next five."""
    completed: int
    failed: int
    skipped: int
    running: int
    waiting: int
    """Number of nodes that are PENDING, READY or ENQUEUED."""
    error_code: str | None
    """The code of the stored error; a COMPLETED workflow may have one, too."""
    failed_node: str | None
    """node_id (or the index, if it has none) of the failed node with the lowest index."""
    part_done: float = 0.0
    """Sum of the reported shares of its running nodes."""

    @property
    def share(self) -> float:
        """The completed share, from 0 to 1; a running node counts by its progress."""
        return (self.done + min(self.part_done, self.running)) / self.total if self.total else 0.0

    @property
    def done(self) -> int:
        """The number of nodes that have ended, in any status."""
        return self.completed + self.failed + self.skipped

    def by_state(self) -> dict[str, int]:
        """Return the number of nodes in each state that has any; those that completed only if others ended, too."""
        counts = {
            "completed": self.completed if self.completed != self.done else 0,
            "running": self.running,
            "failed": self.failed,
            "skipped": self.skipped,
            "waiting": self.waiting,
        }
        return {state: count for state, count in counts.items() if count}

    def run(self, now: datetime) -> timedelta:
        """Return the time from its start to its end or now; upstream stores no end time when it cancels."""
        is_over = self.status in ("COMPLETED", "FAILED", "CANCELLED")
        return (self.completed_at or (self.updated_at if is_over else now)) - (self.started_at or self.sent_at)


WorkflowPage: TypeAlias = Page[WorkflowRow]


class WorkflowCounts(StateCounts):
    """Counts by status. `workflow_counts` continues a part of `workflow_count_parts`."""


async def workflow_page(
    conn: asyncpg.Connection,
    wanted: WorkflowConditions,
    *,
    sort: WorkflowSort = WorkflowSort.NEWEST,
    limit: int = 100,
    after: Cursor | None = None,
    backwards: bool = False,
) -> WorkflowPage:
    """Read up to `limit` rows after a cursor, or before it with `backwards`; rows are in their order either way.

    Rare matches are searched in parts: a page may have fewer rows, even none, and `reached` then says that the search
    continues with the next one.
    """
    source = _source_for(wanted, sort)
    page = await read_page(
        conn,
        WORKFLOWS,
        wanted,
        source,
        statement(__name__, "view_workflow_page"),
        ascending=sort.is_ascending,
        limit=limit,
        after=after,
        backwards=backwards,
        most=source.rows_at_once,
        row_of=WorkflowRow,
        cursor_of=partial(workflow_cursor_of, sort=sort),
    )
    parts = await part_done(conn, [row.id for row in page.rows if row.running])
    rows = (replace(row, part_done=parts[row.id]) if row.id in parts else row for row in page.rows)
    return replace(page, rows=tuple(rows)) if parts else page


def workflow_cursor_of(row: WorkflowRow, sort: WorkflowSort = WorkflowSort.NEWEST) -> Cursor:
    """Return the position of this row in an order that shows it."""
    by_end = sort is WorkflowSort.ENDED
    return Cursor((row.completed_at or row.updated_at) if by_end else row.created_at, row.id)


async def workflow_matching(conn: asyncpg.Connection, wanted: WorkflowConditions, limit: int) -> list[str]:
    """Read the ids of the newest `limit` matches of any age."""
    selecting = statement(__name__, "view_workflow_matching")
    return [row[0] for row in await read_newest(conn, WORKFLOWS, wanted, _source_for(wanted), selecting, limit)]


async def workflow_counts(
    conn: asyncpg.Connection, wanted: WorkflowConditions, rest: Rest | None = None
) -> WorkflowCounts:
    """Count the matching workflows by status. `reached` and `Count.at_least` show where counting stopped.

    With `rest`, count only the uncounted part; added to the earlier counts it gives the total.
    """
    found: list[tuple[dict[str, Count], Stretch | None]] = []
    for part in workflow_count_parts(wanted):
        source, after = (_source_for(part), None) if rest is None else (rest.source, rest.after)
        stretch = await stretch_of(conn, WORKFLOWS, part, source, after=after, most=source.rows_at_once)
        query, values = over(WORKFLOWS, part, stretch, statement(__name__, "view_workflow_counts"))
        rows = await conn.fetch(query, *values)
        found.append(({status: Count(number, stretch.edge is not None) for status, number in rows}, stretch))
    return WorkflowCounts.of_parts(found, await table_size(conn, WORKFLOWS.name))


def workflow_count_parts(wanted: WorkflowConditions) -> list[WorkflowConditions]:
    """Return filters that can be counted one by one; no workflow matches two of them."""
    asked = wanted.statuses or tuple(status.value for status in WorkflowStatus)
    groups = (_LIVE_STATUSES, (WorkflowStatus.COMPLETED.value,), _UNSUCCESSFUL_STATUSES)
    found = (tuple(status for status in group if status in asked) for group in groups)
    return [replace(wanted, statuses=statuses) for statuses in found if statuses]


async def workflow_values(conn: asyncpg.Connection, by: WorkflowValue, *, limit: int = 200) -> tuple[str, ...]:
    """Read the values of the newest workflows in a column, most frequent first; codes only of failed workflows."""
    wanted = WorkflowConditions(_UNSUCCESSFUL_STATUSES if by == "error_code" else None)
    source = _source_for(wanted)
    stretch = Stretch(source, ascending=False, after=None, edge=None, most=source.rows_at_once)
    # One more, because workflows without a value are counted as well.
    selecting = statement(__name__, "view_workflow_values")
    query, values = over(WORKFLOWS, wanted, stretch, selecting, by, limit + 1)
    rows = await conn.fetch(query, *values)
    return tuple(row["value"] for row in rows if row["value"] is not None)[:limit]
