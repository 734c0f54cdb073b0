"""Filters of short lists, such as workers and schedules: all rows are read, and the filter is applied here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from horsies.query.language import BARE
from horsies.query.sense import states
from horsies.query.values import Choice, Glob, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from horsies.query.language import Filter, Term
    from horsies.query.values import Value

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class Fields(Generic[RowT]):
    """The meaning of the filter language's keys for a row; `now` is the database's time."""

    state: Callable[[RowT, datetime], str]
    bare: Callable[[RowT], Iterable[str]]
    """The texts in which words without a key are looked for."""
    texts: Mapping[str, Callable[[RowT], Iterable[str]]]
    has: Mapping[str, Callable[[RowT], bool]]
    numbers: Mapping[str, Callable[[RowT, datetime], float | None]]

    def matching(self, understood: Filter, rows: Iterable[RowT], now: datetime) -> list[RowT]:
        wanted = states(understood)
        terms = [term for term in understood.terms if term.key != "status"]
        return [
            row
            for row in rows
            if self.state(row, now) in wanted and all(self._holds(term, row, now) is not term.negated for term in terms)
        ]

    def _holds(self, term: Term, row: RowT, now: datetime) -> bool:
        if term.key == BARE:
            return any(is_part(value, text) for value in term.values for text in self.bare(row))
        if term.key == "has":
            # All wanted values must hold; none of the excluded ones may.
            found = (self.has[value.word](row) for value in term.values if isinstance(value, Choice))
            return any(found) if term.negated else all(found)
        if term.key in self.texts:
            return any(_is(value, text) for value in term.values for text in self.texts[term.key](row))
        number = self.numbers[term.key](row, now)
        return number is not None and all(_within(value, number) for value in term.values)


def _within(value: Value, number: float) -> bool:
    """Compare whole numbers, as the filter language does: 80.4 is not above 80, and nothing is between 80 and 81."""
    whole = int(number)
    return (
        isinstance(value, Range)
        and (value.low is None or whole >= value.low)
        and (value.high is None or whole <= value.high)
    )


def _is(value: Value, text: str) -> bool:
    return isinstance(value, Glob) and _pattern(value).fullmatch(text) is not None


def is_part(value: Value, text: str) -> bool:
    return isinstance(value, Glob) and _pattern(value).search(text) is not None


@lru_cache(maxsize=256)
def _pattern(glob: Glob) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild[char] if is_wild else re.escape(char) for char, is_wild in glob.pieces()), re.DOTALL)
