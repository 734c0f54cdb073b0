"""The feed of the workflow list: the first matching workflows, and more as the operator scrolls down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from horsies.query import WorkflowFilter, workflow_conditions
from horsies.views import WorkflowSort, workflow_count_parts, workflow_counts, workflow_page
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import GRACE_S, USUAL, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.feed.tally import Tally
from horsies_tui.look.bars import LIST_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.query import WorkflowConditions
    from horsies.views import Cursor, WorkflowCounts, WorkflowRow
    from horsies_tui.feed.link import DatabaseLink

PAGE: Final = 100
MOST_ROWS: Final = 1_000
"""All of them are read at each change, which takes 30 ms; older workflows are found with a filter."""
_MOST_STRETCHES: Final = 50
"""Rare matches are searched for in this many stretches; then the filter must be narrowed."""
_SELDOM_TICKS: Final = 4
_CHANNELS: Final = frozenset({"horsies_workflow_status", "task_done", "horsies_task_status"})


@dataclass(frozen=True, slots=True)
class WorkflowsSnapshot:
    """The workflows in the order of `sort`. An unchanged row is the same object as in the previous snapshot."""

    rows: tuple[WorkflowRow, ...] = ()
    at_end: bool = False
    """There are no further matches."""
    counts: WorkflowCounts | None = None
    searched: datetime | None = None
    """How far was searched, if not everything was."""
    filter_text: str = ""
    sort: WorkflowSort = WorkflowSort.NEWEST
    loading: bool = True
    slow_s: float | None = None
    error: str | None = None
    now: datetime | None = None


@dataclass(slots=True)
class _Found:
    rows: list[WorkflowRow] = field(default_factory=list)
    next: Cursor | None = None
    reached: Cursor | None = None


class WorkflowsFeed(Feed[WorkflowsSnapshot]):
    """Publishes a snapshot on each change. All methods return at once."""

    NAME = "workflows"

    def __init__(
        self, link: DatabaseLink, publish: Callable[[WorkflowsSnapshot], None], *, rhythm: Rhythm = USUAL
    ) -> None:
        super().__init__(link, publish, WorkflowsSnapshot())
        self._filter = WorkflowFilter()
        self._sort = WorkflowSort.NEWEST
        self._wanted = PAGE
        seldom = replace(rhythm, tick_s=_SELDOM_TICKS * rhythm.tick_s, grace_s=GRACE_S)
        self._counts: Tally[WorkflowConditions, WorkflowCounts] = Tally(seldom, _parts(self._filter))
        self._rows = ReadPace(replace(rhythm, grace_s=GRACE_S))
        self._reads = (
            FeedRead("rows", self._read_rows, self._rows, on=_may_change),
            FeedRead("counts", self._counting(self._counts, workflow_counts), self._counts, on=_may_change),
        )

    def ask(self, wanted: WorkflowFilter, sort: WorkflowSort = WorkflowSort.NEWEST) -> None:
        """Show the workflows that match this filter, in this order, from now on."""
        self._filter, self._sort, self._wanted = wanted, sort, PAGE
        self._counts.ask(_parts(wanted))
        self._supersede()
        self.refresh()
        self._publish(filter_text=wanted.text, sort=sort, counts=None, loading=True)

    def parts(self) -> tuple[SnapshotPart, ...]:
        now, wanted = self.snapshot, (self._filter.text,)
        return (
            SnapshotPart("rows", ("rows", "at_end", "searched"), wanted, not now.loading, "this filter"),
            SnapshotPart("counts", ("counts",), wanted, now.counts is not None, "the count of this filter"),
        )

    def more(self) -> None:
        """The cursor is near the last row; load more."""
        if not self.snapshot.at_end and len(self.snapshot.rows) >= self._wanted < MOST_ROWS:
            self._wanted = min(self._wanted + PAGE, MOST_ROWS)
            self.refresh()

    async def _read_rows(self) -> bool:
        wanted, sort, most = self._filter, self._sort, self._wanted
        found, cursor = _Found(), None
        for _ in range(_MOST_STRETCHES):
            limit = most - len(found.rows)
            page = await self._read(
                lambda conn, limit=limit, cursor=cursor: workflow_page(  # type: ignore[misc]
                    conn, workflow_conditions(wanted), sort=sort, limit=limit, after=cursor
                )
            )
            if page is None or wanted is not self._filter or sort is not self._sort:
                return False
            found.rows += page.rows
            found.next, found.reached = page.next, page.reached
            cursor = page.next
            if cursor is None or len(found.rows) >= most:
                break
        self._rows.often_s = LIST_EVERY_S if any(row.part_done for row in found.rows) else None
        known = {row.id: row for row in self.snapshot.rows}
        self._publish(
            rows=tuple(known[row.id] if known.get(row.id) == row else row for row in found.rows),
            at_end=found.next is None,
            searched=None if found.reached is None or found.next is None else found.reached.time,
            loading=False,
        )
        return True


def _may_change(channel: str, _payload: str) -> bool:
    return channel in _CHANNELS


def _parts(wanted: WorkflowFilter) -> list[WorkflowConditions]:
    """Counted one after the other, each in several reads if one does not reach its end."""
    return workflow_count_parts(workflow_conditions(wanted))
