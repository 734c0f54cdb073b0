"""What the feeds publish: frozen pictures of the database, each whole, each replacing the one before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from horsies.query import TaskFilter
from horsies.views import Sort

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.views import GroupBy, TaskCounts, TaskGroups, TaskRow

Edge: TypeAlias = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class TaskNeed:
    """What the tasks screen wants to see. `follow`: stay at the newest, and let arrivals in at once."""

    filter: TaskFilter = field(default_factory=TaskFilter)
    sort: Sort = Sort.NEWEST
    follow: bool = True
    group_by: GroupBy | None = None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A window of at most 600 rows. A row that has not changed is the same object as in the snapshot before."""

    rows: tuple[TaskRow, ...] = ()
    struck: frozenset[str] = frozenset()
    """Ids of rows that stay until the screen settles, though they match no more or are gone."""
    held: int = 0
    """Rows that came above the first one and are not shown yet; `jump("newest")` or follow lets them in."""
    held_more: bool = False
    """There are more than `held`."""
    at_start: bool = False
    """Nothing lies before the first row but what is held."""
    at_end: bool = False
    now: datetime | None = None
    """The database's time of the last page; None before the first one."""
    counts: TaskCounts | None = None
    groups: TaskGroups | None = None
    searched: str = ""
    """How far was looked, where that is not everything: `searched back to 2026-10-18 12:04Z`."""
    filter_text: str = ""
    loading: bool = True
    """What was asked for is not all here yet; rows are those of before."""
    slow_s: float | None = None
    """The last read took, or was given up after, so long; None where it was quick."""
    error: str | None = None
    """One line; the rows are those of before."""
    sort: Sort = Sort.NEWEST
    follow: bool = True
