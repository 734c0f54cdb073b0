"""The immutable snapshots of the task feed. Each is complete and replaces the previous one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from horsies.query import TaskFilter
from horsies.views import Sort, StatisticsSort

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.views import BriefArguments, GroupBy, TaskCounts, TaskGroups, TaskRow, TaskStatistics, Usual
    from horsies_tui.health.windows import Window


PAGE: Final = 200
"""Number of rows per read. In a longer list, the other rows are from earlier reads."""


@dataclass(frozen=True, slots=True)
class TaskNeed:
    """What the tasks screen shows. With `follow`, it stays at the newest row and shows new rows at once."""

    filter: TaskFilter = field(default_factory=TaskFilter)
    sort: Sort = Sort.NEWEST
    follow: bool = True
    group_by: GroupBy | None = None
    statistics: Window | None = None
    """Window of the statistics by task name that are shown instead of rows; None for rows."""
    order: StatisticsSort = StatisticsSort.WORST
    """Sort order of the statistics."""
    arguments: bool = False
    """True if the arguments are needed, because there is room for their column."""

    @property
    def in_rows(self) -> bool:
        return self.group_by is None and self.statistics is None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A window of at most 600 rows. An unchanged row is the same object as in the previous snapshot."""

    rows: tuple[TaskRow, ...] = ()
    struck: frozenset[str] = frozenset()
    """Ids of rows that no longer match or were deleted, but stay until the operator is idle."""
    unseen: int = 0
    """Number of new rows above the first one; `jump("newest")` and following show them."""
    more_unseen: bool = False
    """True if there are more new rows than `unseen`."""
    at_start: bool = False
    """True if no row precedes the first one, except those in `unseen`."""
    at_end: bool = False
    now: datetime | None = None
    """The database's time at the last read; None before the first one."""
    counts: TaskCounts | None = None
    groups: TaskGroups | None = None
    statistics: TaskStatistics | None = None
    usual: Mapping[str, Usual] = field(default_factory=dict)
    """Usual durations of the running tasks, by task name."""
    arguments: Mapping[str, BriefArguments] = field(default_factory=dict)
    """Arguments of the rows for which they were read, by id."""
    searched: str = ""
    """How far the search went, if not through all rows: `searched back to 2026-10-18 12:04Z`."""
    filter_text: str = ""
    loading: bool = True
    """True while the request is not complete; the rows are then the previous ones."""
    slow_s: float | None = None
    """Duration of the last read, or the time after which it was cancelled; None if it was quick."""
    error: str | None = None
    """The error of the last read, on one line; the rows are then the previous ones."""
    sort: Sort = Sort.NEWEST
    follow: bool = True
