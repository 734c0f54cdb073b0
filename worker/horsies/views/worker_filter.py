"""The workers that match a filter. There are as few as worker processes, so all are read and filtered here."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.views.row_filter import Fields

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from horsies.query import WorkerFilter
    from horsies.views.workers import WorkerRow

_MICROSECOND: Final = timedelta(microseconds=1)


def matching(understood: WorkerFilter, rows: Iterable[WorkerRow], now: datetime) -> list[WorkerRow]:
    """`now` is the database's."""
    return _FIELDS.matching(understood, rows, now)


def _names(row: WorkerRow) -> tuple[str, ...]:
    return row.id, row.name


def _hosts(row: WorkerRow) -> tuple[str, ...]:
    return (row.snapshot.hostname,) if row.snapshot is not None else ()


_FIELDS: Final[Fields[WorkerRow]] = Fields(
    state=lambda row, _now: row.liveness,
    bare=_names,
    texts={
        "id": _names,
        "host": _hosts,
        "pid": lambda row: (str(row.snapshot.pid),) if row.snapshot is not None else (),
        "queue": lambda row: row.snapshot.queues if row.snapshot is not None else (),
        "app": lambda row: (row.snapshot.app_version or "",) if row.snapshot is not None else (),
        "version": lambda row: (row.snapshot.version or "",) if row.snapshot is not None else (),
    },
    has={
        "tasks": lambda row: bool(row.in_flight),
        "order": lambda row: row.draining_since is not None,
    },
    numbers={
        "tasks": lambda row, _now: row.in_flight,
        "load": lambda row, _now: None if row.load is None else 100 * row.load,
        "cpu": lambda row, _now: None if row.snapshot is None else row.snapshot.cpu_percent,
        "mem": lambda row, _now: None if row.snapshot is None else row.snapshot.whole_memory_mb,
        "up": lambda row, now: None if row.snapshot is None else (now - row.snapshot.started_at) / _MICROSECOND,
        "silent": lambda row, now: row.silent(now) / _MICROSECOND,
    },
)
