"""The schedules that match a filter. There are as few as an application has lines for them, so all are read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.views.row_filter import Fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from horsies.query import ScheduleFilter
    from horsies.views.schedules import Definition, ScheduleRow

_MICROSECOND: Final = timedelta(microseconds=1)


def matching_schedules(understood: ScheduleFilter, rows: Iterable[ScheduleRow], now: datetime) -> list[ScheduleRow]:
    """`now` is the database's."""
    return _FIELDS.matching(understood, rows, now)


def _definition(row: ScheduleRow) -> Iterator[Definition]:
    if row.definition is not None:
        yield row.definition


def _names(row: ScheduleRow) -> Iterator[str]:
    yield row.name
    yield from (one.target for one in _definition(row))


def _until_next(row: ScheduleRow, now: datetime) -> float | None:
    return None if row.next_run_at is None else max(row.next_run_at - now, timedelta()) / _MICROSECOND


_FIELDS: Final[Fields[ScheduleRow]] = Fields(
    state=lambda row, now: row.standing(now),
    bare=_names,
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
    numbers={"next": _until_next, "runs": lambda row, _now: row.run_count},
)
