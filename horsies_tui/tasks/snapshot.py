"""The immutable snapshots that the task feed publishes; each is complete and replaces the previous one."""

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
"""Rows that are read at a time; of a longer list, the others are as they were read before."""


@dataclass(frozen=True, slots=True)
class TaskNeed:
    """The request of the tasks screen. `follow`: stay at the newest row and show new rows at once."""

    filter: TaskFilter = field(default_factory=TaskFilter)
    sort: Sort = Sort.NEWEST
    follow: bool = True
    group_by: GroupBy | None = None
    statistics: Window | None = None
    """In place of rows, the figures of each task name over this window."""
    order: StatisticsSort = StatisticsSort.WORST
    """Of the statistics."""
    arguments: bool = False
    """There is room for a column with them."""

    @property
    def in_rows(self) -> bool:
        return self.group_by is None and self.statistics is None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A window of at most 600 rows. An unchanged row is the same object as in the previous snapshot."""

    rows: tuple[TaskRow, ...] = ()
    struck: frozenset[str] = frozenset()
    """Ids of rows that no longer match or were deleted, and stay until the operator is idle."""
    unseen: int = 0
    """Rows above the first one that are not shown yet; `jump("newest")` or following shows them."""
    more_unseen: bool = False
    """There are more than `unseen`."""
    at_start: bool = False
    """No row precedes the first one, except those in `unseen`."""
    at_end: bool = False
    now: datetime | None = None
    """The database's time at the last page; None before the first one."""
    counts: TaskCounts | None = None
    groups: TaskGroups | None = None
    statistics: TaskStatistics | None = None
    usual: Mapping[str, Usual] = field(default_factory=dict)
    """How long the tasks that run usually do, by their names."""
    arguments: Mapping[str, BriefArguments] = field(default_factory=dict)
    """By id, of the rows for which they were read."""
    searched: str = ""
    """How far was searched, if not everything was: `searched back to 2026-10-18 12:04Z`."""
    filter_text: str = ""
    loading: bool = True
    """The request is not complete yet; the rows are the previous ones."""
    slow_s: float | None = None
    """How long the last read took, or lasted until it was given up; None if it was quick."""
    error: str | None = None
    """One line; the rows are the previous ones."""
    sort: Sort = Sort.NEWEST
    follow: bool = True
