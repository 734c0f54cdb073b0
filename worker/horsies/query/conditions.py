"""Filters as conditions of a statement: the text is ours, and the user's values are passed as parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias

from horsies.query.language import BARE, Condition, bounds, states, times, yes_and_no
from horsies.query.values import LONGEST_ID, Choice, Glob, Moment, looks_like_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from horsies.query.language import Filter, Language

STATUS: Final = "status"


Patterns: TypeAlias = "Callable[[Glob], tuple[str, ...]]"


def as_written(glob: Glob) -> tuple[str, ...]:
    return (glob.like,)


def id_patterns(glob: Glob) -> tuple[str, ...]:
    """Match an id without wildcards as a beginning or an end: screens show either."""
    whole = glob.exact is None or len(glob.exact) == LONGEST_ID
    return (glob.like,) if whole else (f"{glob.like}%", f"%{glob.like}")


_HOST_AND_PID: Final = re.compile("(.+):([0-9]+)", re.DOTALL)


def worker_patterns(glob: Glob) -> tuple[str, ...]:
    """Match the id and the name `host:pid` of lists; the id is `host-pid-` and a suffix that distinguishes starts."""
    named = _HOST_AND_PID.fullmatch(glob.like)
    return (glob.like,) if named is None else (glob.like, f"{named[1]}-{named[2]}-%")


def _part(glob: Glob) -> tuple[str, ...]:
    return (f"%{glob.like}%",)


def _name_part(glob: Glob) -> tuple[str, ...]:
    return as_written(glob) if glob.exact is None else _part(glob)


def _id_part(glob: Glob) -> tuple[str, ...]:
    return id_patterns(Glob(glob.pattern.lower())) if looks_like_id(glob) else ()


def _every(globs: tuple[Glob, ...], patterns: Patterns) -> tuple[str, ...]:
    """Return the LIKE patterns of all of them, each once."""
    return tuple(dict.fromkeys(pattern for glob in globs for pattern in patterns(glob)))


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column that is equal to, or LIKE, any of the values. Rows where it is NULL match no value, and each exclusion.

    With `exists`, the beginning of a query, the column is one of another table.
    """

    column: str
    patterns: Patterns = as_written
    exists: str = ""

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        for negated in (False, True):
            globs = understood.pick(key, Glob, negated=negated)
            plain = (glob for glob in globs if self.patterns(glob) == (glob.like,))
            exact = tuple(glob.exact for glob in plain if glob.exact is not None)
            if globs and len(exact) == len(globs):  # only equality uses an index
                yield self.equal(key, exact, negated=negated)
            elif globs:
                test = f"{self.column} LIKE ANY ({{0}}::text[])"
                yield Condition(key, self._holds(test, negated=negated), (_every(globs, self.patterns),))

    def equal(self, key: str, texts: tuple[str, ...], *, negated: bool = False) -> Condition:
        test = f"{self.column} = ANY ({{0}}::text[])"
        return Condition(key, self._holds(test, negated=negated), (texts,), indexed=not negated)

    def _holds(self, test: str, *, negated: bool) -> str:
        if self.exists:
            # IS TRUE keeps the planner from joining the whole of the other table: it is looked up for each row.
            return f"(EXISTS ({self.exists} AND {test})) IS {'NOT ' if negated else ''}TRUE"
        return f"({test}) IS NOT TRUE" if negated else test


@dataclass(frozen=True, slots=True)
class Membership:
    """`yes` or `no`, or the id of the workflow that the row belongs to."""

    fact: str
    ids: TextColumn

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        left = yes_and_no(understood, key)
        if len(left) == 1:
            yield Condition(key, self.fact if "yes" in left else f"NOT ({self.fact})")
        yield from self.ids.conditions(key, understood)


@dataclass(frozen=True, slots=True)
class BareWords:
    """Words of which any is a part of the name, or the beginning or end of the id."""

    name: str
    id: str

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        for negated in (False, True):
            globs = understood.pick(key, Glob, negated=negated)
            if not globs:
                continue
            test, names, ids = (
                f"{self.name} LIKE ANY ({{0}}::text[])",
                _every(globs, _name_part),
                _every(globs, _id_part),
            )
            if ids:
                test = f"({test} OR {self.id} LIKE ANY ({{1}}::text[]))"
            yield Condition(key, f"NOT ({test})" if negated else test, (names, ids) if ids else (names,))


@dataclass(frozen=True, slots=True)
class Parts:
    """Columns, possibly large, of which any contains any of the values."""

    columns: tuple[str, ...]

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        test = " OR ".join(f"{column} LIKE ANY ({{0}}::text[])" for column in self.columns)
        for negated in (False, True):
            if globs := understood.pick(key, Glob, negated=negated):
                yield Condition(key, f"({test}){' IS NOT TRUE' if negated else ''}", (_every(globs, _part),))


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """The condition of each word of the key."""

    of: Mapping[str, str]

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        for choice in understood.pick(key, Choice):
            yield Condition(key, self.of[choice.word])
        for choice in understood.pick(key, Choice, negated=True):
            yield Condition(key, f"NOT ({self.of[choice.word]})")


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A time before or after a moment, which is included; a duration counts from the database's now."""

    compared: str

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        for moment in understood.pick(key, Moment):
            place = "{0}::timestamptz" if moment.ago is None else "statement_timestamp() - {0}::interval"
            yield Condition(key, f"{self.compared} {place}", (moment.at or moment.ago,), indexed=True)


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number within all ranges."""

    sql: str

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        low, high = bounds(understood, key)
        if low is not None:
            yield Condition(key, f"{self.sql} >= {{0}}::integer", (low,))
        if high is not None:
            yield Condition(key, f"{self.sql} <= {{0}}::integer", (high,))


@dataclass(frozen=True, slots=True)
class Length:
    """A duration within all ranges. Negative ones, of a clock that was set back, never match."""

    sql: str

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        low, high = bounds(understood, key)
        if low is None and high is None:
            return
        yield Condition(key, f"{self.sql} >= {{0}}::interval", (timedelta(microseconds=low or 0),))
        if high is not None:
            yield Condition(key, f"{self.sql} <= {{0}}::interval", (timedelta(microseconds=high),))


def finite_length(since: str, until: str) -> str:
    """Return SQL for the time between two stored ones; NULL if one is infinity, which cannot be subtracted."""
    first, last = (f"NULLIF(NULLIF({time}, 'infinity'), '-infinity')" for time in (since, until))
    return f"({last} - {first})"


@dataclass(frozen=True, slots=True)
class Past:
    """A moment so long ago, or between these times."""

    sql: str

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        yield from Length(finite_length(self.sql, "statement_timestamp()")).conditions(key, understood)
        first, last = times(understood, key)
        if first is not None:
            yield Condition(key, f"{self.sql} >= {{0}}::timestamptz", (first,))
        if last is not None:
            yield Condition(key, f"{self.sql} <= {{0}}::timestamptz", (last,))


@dataclass(frozen=True, slots=True)
class States:
    """Statuses that are shown as several states. `parts` has an expression for the state of a row with that status."""

    parts: Mapping[str, str]

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]:
        left = states(understood)
        for status, state in self.parts.items():
            every = understood.language.statuses[status]
            wanted = tuple(part for part in every if part in left)
            if 0 < len(wanted) < len(every):
                yield Condition(key, f"(status <> '{status}' OR {state} = ANY ({{0}}::text[]))", (wanted,))


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that must all hold. `statuses` are the stored ones to read, in the order of their life; None: all."""

    language: ClassVar[Language]
    statuses: tuple[str, ...] | None = None
    others: tuple[Condition, ...] = ()

    @property
    def all(self) -> tuple[Condition, ...]:
        if self.statuses is None:
            return self.others
        return Condition(STATUS, "status = ANY ({0}::text[])", (self.statuses,), indexed=True), *self.others

    def exact(self, key: str) -> tuple[str, ...] | None:
        """Return the texts of which the key's column must equal one; None without such a condition."""
        found = (other.values[0] for other in self.others if other.key == key and other.indexed)
        return next((texts for texts in found if isinstance(texts, tuple)), None)

    def among(self, key: str, texts: tuple[str, ...]) -> Self:
        """Return the same conditions, but for this key only that its column equals one of these texts."""
        column = self.language.keys[key].sql
        assert isinstance(column, TextColumn)
        others = (other for other in self.others if other.key != key)
        return replace(self, others=(column.equal(key, texts), *others))


def statuses_of(understood: Filter) -> tuple[str, ...] | None:
    """Return the statuses of which at least one state is wanted; None for all."""
    left, every = states(understood), understood.language.statuses
    found = tuple(status for status, parts in every.items() if left.intersection(parts))
    return None if len(found) == len(every) else found


def conditions_of(understood: Filter) -> tuple[Condition, ...]:
    """Return the conditions of all keys and of the bare words, those on large columns last."""
    makers = {BARE: understood.language.bare} | {name: key.sql for name, key in understood.language.keys.items()}
    found = [one for key, sql in makers.items() if sql is not None for one in sql.conditions(key, understood)]
    return tuple(sorted(found, key=lambda condition: isinstance(makers[condition.key], Parts)))
