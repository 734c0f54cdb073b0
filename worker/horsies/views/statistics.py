"""The statistics by task name over a window, and the usual durations of a name's runs.

All tasks that ended within it are read if they are few; of many, the newest of each name, an equal share for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.damage import number
from horsies.query import TaskFilter, Term, parse
from horsies.query.values import Glob
from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.reader_session import decoded
from horsies.views.searching import Source, StatementParameters, Stretch, Table, over
from horsies.views.tasks import answerable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import asyncpg

    from horsies.query import TaskConditions


MOST_READ: Final = 60_000
"""Ended tasks that are read at most, as many as for a chart: 0.3 s among ten million tasks."""
MOST_NAMES: Final = 1_000

_TASKS: Final = Table("horsies_tasks", "task", statement(__name__, "view_statistics_candidates"))
_NEWEST_OF_EACH: Final = Source("newest of each name", statement(__name__, "view_newest_of_each"), MOST_READ)


@dataclass(frozen=True, slots=True)
class NameStatistics:
    """One name, in the column order of the statement. Times in seconds; waits and runs are those of the last attempt.

    `partly`: more tasks ended within the window than were read, and the figures are those that ended since `since`;
    otherwise that is the beginning of the window.
    """

    name: str
    tasks: int
    """Number of matching tasks that completed, failed, were cancelled or expired."""
    failed: int
    retries: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
    busy_s: float
    """Total duration of their runs."""
    partly: bool
    since: datetime
    over_s: float
    """The time from `since` to now."""
    busy_share: float = 0.0
    """Its share of the total duration of all listed names, from 0 to 1; partly read names count by their rate."""

    @property
    def id(self) -> str:
        """The key of its row in a list."""
        return self.name

    @property
    def ended(self) -> Count:
        return Count(self.tasks, self.partly)

    @property
    def failed_share(self) -> float:
        return self.failed / self.tasks

    @property
    def failed_per_s(self) -> float:
        return self.failed / self.over_s

    @property
    def busy(self) -> float:
        """The number of processes that it keeps busy on average."""
        return self.busy_s / self.over_s


class StatisticsSort(StrEnum):
    WORST = "worst"
    ENDED = "ended"
    FAILED = "failed"
    SHARE = "share"
    RETRIES = "retries"
    WAIT = "wait"
    RUN = "run"
    BUSY = "busy"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """`since` is the beginning of the window, at a whole second. `more_names`: there are more names than were read."""

    now: datetime
    since: datetime
    names: tuple[NameStatistics, ...]
    more_names: bool

    def sorted_by(self, sort: StatisticsSort) -> tuple[NameStatistics, ...]:
        """Sort by the largest value first, names alphabetically."""
        return tuple(sorted(self.names, key=lambda row: (_ORDERS[sort](row), row.name)))

    def filter_of(self, wanted: TaskFilter, names: Sequence[str]) -> TaskFilter:
        """Return a filter of the counted tasks of these names, with fixed times."""
        others = tuple(term for term in wanted.terms if term.key != "name" or term.negated)
        ended = parse(f"ended:>={self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}").terms
        return TaskFilter((*others, Term("name", tuple(map(Glob.literal, names))), *ended))


_ORDERS: Final[Mapping[StatisticsSort, Callable[[NameStatistics], Any]]] = {
    # Failures count by their share as well: 10 of 10 are worse than 20 of 10,000.
    StatisticsSort.WORST: lambda row: (-row.failed_per_s * row.failed_share, -row.busy),
    StatisticsSort.ENDED: lambda row: -row.tasks / row.over_s,
    StatisticsSort.FAILED: lambda row: -row.failed_per_s,
    StatisticsSort.SHARE: lambda row: -row.failed_share,
    StatisticsSort.RETRIES: lambda row: -row.retries / row.over_s,
    StatisticsSort.WAIT: lambda row: -(row.wait_p95 or 0.0),
    StatisticsSort.RUN: lambda row: -(row.run_p95 or 0.0),
    StatisticsSort.BUSY: lambda row: -row.busy,
    StatisticsSort.NAME: lambda _row: 0,
}


async def task_statistics(
    conn: asyncpg.Connection, wanted: TaskConditions, window: timedelta | datetime
) -> TaskStatistics:
    """Read the statistics of matching tasks that ended within the window until now: its length, or its beginning."""
    wanted = await answerable(conn, wanted)
    now, since, names = await _names(conn, wanted, window)
    most = MOST_READ // max(len(names[:MOST_NAMES]), 1)
    whole = Stretch(_NEWEST_OF_EACH, ascending=False, after=None, edge=None, most=most)
    query, values = over(
        _TASKS, wanted, whole, statement(__name__, "view_task_statistics"), names[:MOST_NAMES], since, now, most
    )
    rows = await conn.fetch(query, *values)
    found = [NameStatistics(*map(decoded, row)) for row in rows]
    busy = sum(row.busy for row in found) or 1.0
    shared = tuple(replace(row, busy_share=row.busy / busy) for row in found)
    return TaskStatistics(now, since, shared, more_names=len(names) > MOST_NAMES)


async def _names(
    conn: asyncpg.Connection, wanted: TaskConditions, window: timedelta | datetime
) -> tuple[datetime, datetime, list[str]]:
    """Return the database's time, the beginning of the window, and the names of which a task ended within it."""
    begins = isinstance(window, datetime)
    given = StatementParameters(None if begins else window, window if begins else None, MOST_NAMES + 1)
    holds = " AND ".join(given.put(one) for one in wanted.all if one.key == "name")
    query = statement(__name__, "view_names_that_ended", holds=holds or "true")
    now, since, names = await conn.fetchrow(query, *given.values)
    return now, since, names


USUAL_OVER: Final = timedelta(days=1)
MOST_OF_A_NAME: Final = 500
"""Ended tasks read of each name: 20 names take 23 ms among ten million tasks."""
MOST_ATTEMPTS: Final = 10_000
"""Of all names together, where the index by name is missing."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The median and the 95th percentile of `runs` completed runs, in the column order of the statement."""

    p50_s: float
    p95_s: float
    runs: int


async def usual_durations(conn: asyncpg.Connection, names: Iterable[str]) -> Mapping[str, Usual]:
    """Read the usual durations by name, without names that completed nothing among their newest tasks of the last day.

    Databases of upstream have no index by name: there the newest attempts of all names are read.
    """
    wanted = [*set(names)]
    if not wanted:
        return {}
    indexed = await conn.fetchval(statement(__name__, "view_has_index_by_name"))
    if indexed:
        rows = await conn.fetch(statement(__name__, "view_usual_durations"), wanted, USUAL_OVER, MOST_OF_A_NAME)
    else:
        rows = await conn.fetch(statement(__name__, "view_usual_attempts"), wanted, USUAL_OVER, MOST_ATTEMPTS)
    return {row["name"]: Usual(number(row["p50_s"]) or 0.0, number(row["p95_s"]) or 0.0, row["runs"]) for row in rows}
