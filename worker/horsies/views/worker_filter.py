"""The workers that match a filter. There are as few as worker processes, so all are read and filtered here."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from horsies.query.language import BARE
from horsies.query.sense import states
from horsies.query.values import Choice, Glob, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from horsies.query import Term, WorkerFilter
    from horsies.query.values import Value
    from horsies.views.workers import WorkerRow

_MICROSECOND: Final = timedelta(microseconds=1)


def matching(understood: WorkerFilter, rows: Iterable[WorkerRow], now: datetime) -> list[WorkerRow]:
    """`now` is the database's."""
    wanted = states(understood)
    terms = [term for term in understood.terms if term.key != "status"]
    return [
        row
        for row in rows
        if row.liveness in wanted and all(_holds(term, row, now) is not term.negated for term in terms)
    ]


def _holds(term: Term, row: WorkerRow, now: datetime) -> bool:
    if term.key == BARE:
        return any(_is_part(value, text) for value in term.values for text in _names(row))
    if term.key == "has":
        # All wanted values must hold; none of the excluded ones may.
        found = (_HAS[value.word](row) for value in term.values if isinstance(value, Choice))
        return any(found) if term.negated else all(found)
    if term.key in _TEXTS:
        return any(_is(value, text) for value in term.values for text in _TEXTS[term.key](row))
    number = _NUMBERS[term.key](row, now)
    return number is not None and all(_within(value, number) for value in term.values)


def _names(row: WorkerRow) -> tuple[str, ...]:
    return row.id, row.name


def _hosts(row: WorkerRow) -> tuple[str, ...]:
    return (row.snapshot.hostname,) if row.snapshot is not None else ()


_TEXTS: Final[Mapping[str, Callable[[WorkerRow], Iterable[str]]]] = {
    "id": _names,
    "host": _hosts,
    "pid": lambda row: (str(row.snapshot.pid),) if row.snapshot is not None else (),
    "queue": lambda row: row.snapshot.queues if row.snapshot is not None else (),
    "version": lambda row: (row.snapshot.version or "",) if row.snapshot is not None else (),
}
_HAS: Final[Mapping[str, Callable[[WorkerRow], bool]]] = {
    "tasks": lambda row: bool(row.held),
    "order": lambda row: row.draining_since is not None,
}
_NUMBERS: Final[Mapping[str, Callable[[WorkerRow, datetime], float | None]]] = {
    "tasks": lambda row, _now: row.held,
    "load": lambda row, _now: None if row.load is None else 100 * row.load,
    "cpu": lambda row, _now: None if row.snapshot is None else row.snapshot.cpu_percent,
    "mem": lambda row, _now: None if row.snapshot is None else row.snapshot.whole_memory_mb,
    "up": lambda row, now: None if row.snapshot is None else (now - row.snapshot.started_at) / _MICROSECOND,
    "silent": lambda row, now: row.silent(now) / _MICROSECOND,
}


def _within(value: Value, number: float) -> bool:
    """Of whole numbers, as in the filter language: 80.4 is not above 80, and nothing is between 80 and 81."""
    whole = int(number)
    return (
        isinstance(value, Range)
        and (value.low is None or whole >= value.low)
        and (value.high is None or whole <= value.high)
    )


def _is(value: Value, text: str) -> bool:
    return isinstance(value, Glob) and _pattern(value).fullmatch(text) is not None


def _is_part(value: Value, text: str) -> bool:
    return isinstance(value, Glob) and _pattern(value).search(text) is not None


@lru_cache(maxsize=256)
def _pattern(glob: Glob) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild[char] if is_wild else re.escape(char) for char, is_wild in glob.pieces()), re.DOTALL)
