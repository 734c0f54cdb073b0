"""Filters of workers and schedules: all rows of these short lists are read, and the filter is applied here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from horsies.query.language import BARE, states
from horsies.query.values import Choice, Glob, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from horsies.query import ScheduleFilter, WorkerFilter
    from horsies.query.language import Filter, Term
    from horsies.query.values import Value
    from horsies.views.schedules import Definition, ScheduleRow
    from horsies.views.workers import WorkerRow


RowT = TypeVar("RowT")
FilterT = TypeVar("FilterT", bound="Filter")


@dataclass(frozen=True, slots=True)
class Fields(Generic[FilterT, RowT]):
    """The meaning of the filter language's keys for a row; `now` is the database's time."""

    state: Callable[[RowT, datetime], str]
    bare: Callable[[RowT], Iterable[str]]
    """Return the texts in which words without a key are searched."""
    texts: Mapping[str, Callable[[RowT], Iterable[str]]]
    has: Mapping[str, Callable[[RowT], bool]]
    numbers: Mapping[str, Callable[[RowT, datetime], float | None]]

    def matching(self, understood: FilterT, rows: Iterable[RowT], now: datetime) -> list[RowT]:
        """Return the rows that match the filter; `now` is the database's."""
        wanted = states(understood)
        terms = [term for term in understood.terms if term.key != "status"]
        return [
            row
            for row in rows
            if self.state(row, now) in wanted and all(self._holds(term, row, now) is not term.negated for term in terms)
        ]

    def _holds(self, term: Term, row: RowT, now: datetime) -> bool:
        if term.key == BARE:
            return self._holds_any(term, Glob.is_in, self.bare(row))
        if term.key == "has":
            # All included conditions must match, and no excluded one.
            found = (self.has[value.word](row) for value in term.values if isinstance(value, Choice))
            return any(found) if term.negated else all(found)
        if term.key in self.texts:
            return self._holds_any(term, Glob.matches, self.texts[term.key](row))
        number = self.numbers[term.key](row, now)
        return number is not None and all(_within(value, number) for value in term.values)

    @staticmethod
    def _holds_any(term: Term, matches: Callable[[Glob, str], bool], texts: Iterable[str]) -> bool:
        globs = [value for value in term.values if isinstance(value, Glob)]
        return any(matches(glob, text) for text in texts for glob in globs)


def _within(value: Value, number: float) -> bool:
    """Compare whole numbers, as the filter language does: 80.4 is not above 80, and nothing is between 80 and 81."""
    whole = int(number)
    return (
        isinstance(value, Range)
        and (value.low is None or whole >= value.low)
        and (value.high is None or whole <= value.high)
    )


_MICROSECOND: Final = timedelta(microseconds=1)


def _names(row: WorkerRow) -> tuple[str, ...]:
    return row.id, row.name


_WORKERS: Final[Fields[WorkerFilter, WorkerRow]] = Fields(
    state=lambda row, _now: row.liveness,
    bare=_names,
    texts={
        "id": _names,
        "host": lambda row: (row.snapshot.hostname,) if row.snapshot is not None else (),
        "pid": lambda row: (str(row.snapshot.pid),) if row.snapshot is not None else (),
        "queue": lambda row: row.snapshot.queues if row.snapshot is not None else (),
        "app": lambda row: (row.snapshot.app_version or "",) if row.snapshot is not None else (),
        "version": lambda row: (row.snapshot.version or "",) if row.snapshot is not None else (),
    },
    has={"tasks": lambda row: bool(row.in_flight), "order": lambda row: row.draining_since is not None},
    numbers={
        "tasks": lambda row, _now: row.in_flight,
        "load": lambda row, _now: None if row.load is None else 100 * row.load,
        "cpu": lambda row, _now: None if row.snapshot is None else row.snapshot.cpu_percent,
        "mem": lambda row, _now: None if row.snapshot is None else row.snapshot.whole_memory_mb,
        "up": lambda row, now: None if row.snapshot is None else (now - row.snapshot.started_at) / _MICROSECOND,
        "silent": lambda row, now: row.silent(now) / _MICROSECOND,
    },
)
matching: Final = _WORKERS.matching


def _definition(row: ScheduleRow) -> Iterator[Definition]:
    if row.definition is not None:
        yield row.definition


def _schedule_names(row: ScheduleRow) -> Iterator[str]:
    yield row.name
    yield from (one.target for one in _definition(row))


_SCHEDULES: Final[Fields[ScheduleFilter, ScheduleRow]] = Fields(
    state=lambda row, now: row.standing(now),
    bare=_schedule_names,
    texts={
        "name": lambda row: (row.name,),
        "sends": lambda row: (one.target for one in _definition(row)),
        "queue": lambda row: (one.queue or "" for one in _definition(row)),
        "zone": lambda row: (one.timezone for one in _definition(row)),
        "last": lambda row: () if row.last is None else (row.last.state.lower(),),
    },
    has={
        "failures": lambda row: any(run.failed for run in row.runs),
        "skip": lambda row: row.skip_slot is not None,
        "workflow": lambda row: any(one.kind == "workflow" for one in _definition(row)),
    },
    numbers={
        "next": lambda row, now: (
            None if row.next_run_at is None else max(row.next_run_at - now, timedelta()) / _MICROSECOND
        ),
        "runs": lambda row, _now: row.run_count,
    },
)
matching_schedules: Final = _SCHEDULES.matching
