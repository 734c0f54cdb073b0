"""Counts of the tasks that match a filter, by state or in groups: exact for live tasks, bounded for ended ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, get_args

from horsies.domain.states import TaskStatus
from horsies.query import TaskConditions, parse, task_conditions
from horsies.store.statements import statement
from horsies.views.reader_session import aware
from horsies.views.searching import Rest, Stretch, over, stretch_of, table_size
from horsies.views.tasks import LIVE, TASKS, UNSUCCESSFUL_STATUSES, Sort, answerable, few_wait, rows_at_once, source_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import asyncpg

GroupBy: TypeAlias = Literal["error_code", "task_name", "queue_name", "worker"]
GROUPINGS: Final[tuple[GroupBy, ...]] = get_args(GroupBy)

MOST_WAITING: Final = 100_000
"""Maximum count of waiting tasks without a filter, from an index: 10 ms."""


@dataclass(frozen=True, slots=True)
class Count:
    number: int
    at_least: bool = False
    """True if counting stopped at its bound, so that there may be more."""

    def __str__(self) -> str:
        return f"{self.number}+" if self.at_least else str(self.number)


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Counts by state, without states that have no match."""

    states: Mapping[str, Count]
    reached: datetime | None
    """Older tasks were not counted in all states; None if all were counted."""
    in_table: int | None
    """Estimated number of rows, matching or not; None if the table was never vacuumed or analyzed."""
    rest: Rest | None = None
    """The position to continue counting at, for a part of a filter; None if all were counted."""

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[Mapping[str, Count], Stretch | None]], in_table: int | None) -> Self:
        """Combine the counts of each part of a filter; a part without a stretch was counted to its end."""
        states = {state: count for counts, _ in parts for state, count in counts.items() if count.number}
        cut = [Rest(part.source, part.edge) for _, part in parts if part is not None and part.edge is not None]
        reached = max((rest.after.time for rest in cut), default=None)
        return cls(states, reached, in_table, cut[0] if cut and len(parts) == 1 else None)

    def __add__(self, more: Self) -> Self:
        """Return the sum with the counts from `rest` on."""
        states = dict(self.states)
        for state, count in more.states.items():
            before = states.get(state, Count(0))
            states[state] = Count(before.number + count.number, count.at_least)
        if more.rest is None:
            states = {state: replace(count, at_least=False) for state, count in states.items()}
        return replace(more, states=states)

    @property
    def total(self) -> Count:
        counts = self.states.values()
        partly = self.reached is not None or any(count.at_least for count in counts)
        return Count(sum(count.number for count in counts), partly)


class TaskCounts(StateCounts):
    """Counts with RETRY and INTERRUPTED separate from PENDING and FAILED. `task_counts` continues `count_parts`."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """One group. `key` is None for tasks without a value; its times are those of creation."""

    key: str | None
    number: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, slots=True)
class TaskGroups:
    """Groups, largest first. With `reached`, only tasks created since then were counted."""

    now: datetime
    groups: tuple[TaskGroup, ...]
    reached: datetime | None


async def task_counts(conn: asyncpg.Connection, wanted: TaskConditions, rest: Rest | None = None) -> TaskCounts:
    """Count the matching tasks in each state. All live tasks are counted, up to the number that a refresh may read.

    With `rest`, count only the uncounted part; added to the earlier counts it gives the total.
    """
    found: list[tuple[dict[str, Count], Stretch | None]] = []
    for part in count_parts(await answerable(conn, wanted)):
        if part in _COUNTED_AS:
            waiting = await _waiting(conn)
            found.append(({state: waiting[state] for state in _COUNTED_AS[part]}, None))
        else:
            stretch = await _stretch(conn, part, rest)
            found.append((await _by_state(conn, part, stretch), stretch))
    return TaskCounts.of_parts(found, await table_size(conn, TASKS.name))


def count_parts(wanted: TaskConditions) -> list[TaskConditions]:
    """Return filters that can be counted one by one, each in a third of the time; no task matches two of them."""
    asked = wanted.statuses or tuple(status.value for status in TaskStatus)
    # Each group has an index of its own.
    groups = (_WAITING, ("CLAIMED", "RUNNING"), _COMPLETED, tuple(sorted(UNSUCCESSFUL_STATUSES)))
    found = (tuple(status for status in group if status in asked) for group in groups)
    return [replace(wanted, statuses=statuses) for statuses in found if statuses]


async def task_groups(conn: asyncpg.Connection, wanted: TaskConditions, *, by: GroupBy, limit: int = 100) -> TaskGroups:
    """Count matching tasks by a column. By error code, only failed, cancelled and expired tasks are read."""
    if by == "error_code" and wanted.statuses is None:
        wanted = replace(wanted, statuses=tuple(sorted(UNSUCCESSFUL_STATUSES)))
    wanted = await answerable(conn, wanted)
    source = await source_for(conn, wanted, Sort.NEWEST)
    stretch = await stretch_of(conn, TASKS, wanted, source, most=rows_at_once(wanted, source))
    query, values = over(TASKS, wanted, stretch, statement(__name__, "view_task_groups"), by, limit)
    rows = await conn.fetch(query, *values)
    return TaskGroups(
        now=rows[0]["now"],
        groups=tuple(TaskGroup(*map(aware, row[1:])) for row in rows if row["number"] is not None),
        reached=stretch.edge.time if stretch.edge else None,
    )


_WAITING: Final = ("PENDING",)
_COMPLETED: Final = ("COMPLETED",)
_COUNTED_AS: Final[Mapping[TaskConditions, tuple[str, ...]]] = {
    task_conditions(parse("status:pending,retry")): ("PENDING", "RETRY"),
    task_conditions(parse("status:pending")): ("PENDING",),
    task_conditions(parse("status:retry")): ("RETRY",),
}
"""Filters that are counted by an index alone, and the states that they show."""


async def _stretch(conn: asyncpg.Connection, part: TaskConditions, rest: Rest | None) -> Stretch:
    if rest is not None:
        most = rows_at_once(part, rest.source) // 2
        return await stretch_of(conn, TASKS, part, rest.source, after=rest.after, most=most)
    by_id = part.exact("id") is not None or part.exact("workflow") is not None
    if part.statuses == _WAITING and not by_id:
        return Stretch(LIVE, ascending=False, after=None, edge=None, most=LIVE.rows_at_once)
    # The newest rows may contain no completed task yet, but the rows that ended last do.
    by_time = any(condition.key == "since" for condition in part.others)
    sort = Sort.FINISHED if part.statuses == _COMPLETED and not by_id and not by_time else Sort.NEWEST
    source = await source_for(conn, part, sort)
    # Half of what a page may read, because there are up to three such parts.
    return await stretch_of(conn, TASKS, part, source, most=rows_at_once(part, source) // 2)


async def _by_state(conn: asyncpg.Connection, part: TaskConditions, stretch: Stretch) -> dict[str, Count]:
    query, values = over(TASKS, part, stretch, statement(__name__, "view_task_counts"))
    rows = await conn.fetch(query, *values)
    all_read = stretch.edge is None
    if stretch.source is LIVE and part.statuses == _WAITING:
        all_read = await few_wait(conn, stretch.most)
    return {state: Count(number, not all_read) for state, number in rows}


async def _waiting(conn: asyncpg.Connection) -> dict[str, Count]:
    pending, retrying = await conn.fetchrow(statement(__name__, "view_waiting_count"), MOST_WAITING)
    return {
        "PENDING": Count(max(pending - retrying, 0), pending == MOST_WAITING),
        "RETRY": Count(retrying, retrying == MOST_WAITING),
    }
