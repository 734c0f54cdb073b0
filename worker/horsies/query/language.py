"""The elements of a filter language: its keys and words, a filter in it, and the meaning of all its words combined."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

from horsies.query.values import Choice, Glob, Moment, Range, Times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from horsies.query.values import Value


BARE: Final = ""
"""The key of words without a key: a part of the name, or the beginning or end of the id."""


ValueT = TypeVar("ValueT", bound="Value")
BoundT = TypeVar("BoundT", int, datetime)


class Kind(Enum):
    """The kinds of values of a key."""

    STATUS = auto()
    TEXT = auto()
    ID = auto()
    WORKFLOW = auto()
    PART = auto()
    HAS = auto()
    MOMENT = auto()
    TRIES = auto()
    COUNT = auto()
    """As TRIES, but from 0 on."""
    SPAN = auto()
    PAST = auto()
    """A length of time before now, or moments."""

    @property
    def any_of(self) -> bool:
        """True if several values mean any of them. For the other kinds all must hold, so a comma would mislead."""
        return self not in (Kind.HAS, Kind.MOMENT, Kind.TRIES, Kind.COUNT, Kind.SPAN, Kind.PAST)

    @property
    def can_be_negated(self) -> bool:
        return self not in (Kind.MOMENT, Kind.TRIES, Kind.COUNT, Kind.SPAN, Kind.PAST)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that the rows of `key` satisfy. `{0}`, `{1}` in `sql` are the places of `values`."""

    key: str
    sql: str
    values: tuple[object, ...] = ()
    indexed: bool = False
    """True if an index may serve it: a column that equals any of the texts in `values`, or a bound of the time."""


class Sql(Protocol):
    """Makes the conditions of one key from its values in a filter."""

    def conditions(self, key: str, understood: Filter) -> Iterator[Condition]: ...


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `values` are its words, or examples; `also` are names that other tools use for it.

    `sql` makes its conditions; a key of rows that are filtered in Python has none.
    """

    name: str
    kind: Kind
    help: str
    example: str
    values: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    sql: Sql | None = None

    def describe(self) -> str:
        return f"{self.help}, as in {self.example}"


@dataclass(frozen=True, slots=True)
class Language:
    """The keys and states of one kind of rows; used by the parser, the completion and the help."""

    thing: str
    keys: Mapping[str, Key]
    states: Mapping[str, frozenset[str]]
    """The states that each word after `status:` includes."""
    states_elsewhere: Mapping[str, str]
    """Names that other tools use for these words."""
    grammar: tuple[str, ...]
    example: str
    statuses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The stored statuses in the order of their life, each with the states in which it is shown."""
    bare: Sql | None = None

    @property
    def every_state(self) -> frozenset[str]:
        return frozenset[str]().union(*self.states.values())

    @property
    def said_elsewhere(self) -> dict[str, str]:
        """Names that other tools use for the keys."""
        return {word: key.name for key in self.keys.values() for word in key.also}

    def describe(self) -> str:
        """Return the help text of the language for `--help` and `?`."""
        width = max(map(len, self.keys))
        return "\n".join([*self.grammar, "", *(f"{name:{width}}  {key.describe()}" for name, key in self.keys.items())])


@dataclass(frozen=True, slots=True)
class Term:
    """All conditions of the filter on one key with one sign; the key of bare words is empty."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False

    def written(self, language: Language) -> str:
        sign = "-" if self.negated else ""
        if self.key == BARE:
            return " ".join(
                sign + (value.as_word() if isinstance(value, Glob) else str(value)) for value in self.values
            )
        prefix = f"{sign}{self.key}:"
        if language.keys[self.key].kind.any_of:
            return prefix + ",".join(map(str, self.values))
        return " ".join(f"{prefix}{value}" for value in self.values)


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; without a term it matches everything."""

    language: ClassVar[Language]
    terms: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return " ".join(term.written(self.language) for term in self.terms)

    def pick(self, key: str, kind: type[ValueT], *, negated: bool = False) -> tuple[ValueT, ...]:
        """Return the values of that kind that the filter includes, or excludes, under `key`."""
        return tuple(
            value
            for term in self.terms
            if term.key == key and term.negated is negated
            for value in term.values
            if isinstance(value, kind)
        )


def keyed(*keys: Key) -> Mapping[str, Key]:
    return {key.name: key for key in keys}


def states(understood: Filter) -> frozenset[str]:
    """Return the states that are included and not excluded."""
    language = understood.language
    wanted = _covered(understood.pick("status", Choice), language) or language.every_state
    return wanted - _covered(understood.pick("status", Choice, negated=True), language)


def _covered(choices: tuple[Choice, ...], language: Language) -> frozenset[str]:
    return frozenset(state for choice in choices for state in language.states[choice.word])


def yes_and_no(understood: Filter, key: str) -> frozenset[str]:
    """Return those of `yes` and `no` that are included and not excluded."""
    wanted = {choice.word for choice in understood.pick(key, Choice)} or {"yes", "no"}
    return frozenset(wanted) - {choice.word for choice in understood.pick(key, Choice, negated=True)}


def bounds(understood: Filter, key: str) -> tuple[int | None, int | None]:
    """Return the minimum and the maximum that all ranges of the key allow."""
    ranges = understood.pick(key, Range)
    return _common([each.low for each in ranges], [each.high for each in ranges])


def times(understood: Filter, key: str) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment that all ranges of the key allow."""
    ranges = understood.pick(key, Times)
    return _common([each.low for each in ranges], [each.high for each in ranges])


def _common(lows: list[BoundT | None], highs: list[BoundT | None]) -> tuple[BoundT | None, BoundT | None]:
    low = max((each for each in lows if each is not None), default=None)
    return low, min((each for each in highs if each is not None), default=None)


def contradictions(understood: Filter) -> Iterator[tuple[str, str]]:
    """Yield each key whose conditions exclude each other, and the reason."""
    thing, keys = understood.language.thing, understood.language.keys.values()
    if not states(understood):
        yield "status", "no state is left: all included states are excluded, too"
    for key in (key.name for key in keys if key.kind is Kind.WORKFLOW):
        yield from _impossible_workflows(understood, key)
    both = set(understood.pick("has", Choice)) & set(understood.pick("has", Choice, negated=True))
    if both:
        yield "has", f"no {thing} both has and lacks {' and '.join(sorted(choice.word for choice in both))}"
    for key in (key.name for key in keys if key.kind in (Kind.TRIES, Kind.COUNT, Kind.SPAN, Kind.PAST)):
        low, high = bounds(understood, key)
        first, last = times(understood, key)
        if first is not None and last is not None and first > last:
            yield key, f"no {thing} is within all of these: {' '.join(map(str, understood.pick(key, Times)))}"
        if low is not None and high is not None and low > high:
            yield key, f"no {thing} is within all of these: {' '.join(map(str, understood.pick(key, Range)))}"
    yield from _impossible_times(understood)


def _impossible_workflows(understood: Filter, key: str) -> Iterator[tuple[str, str]]:
    words, ids = understood.pick(key, Choice), understood.pick(key, Glob)
    left = yes_and_no(understood, key)
    if words and ids:
        yield key, f"{key} takes yes or no, or ids, not both"
    elif not left or (ids and "yes" not in left):
        yield key, f"no {understood.language.thing} is left: all that are included are excluded, too"


def _impossible_times(understood: Filter) -> Iterator[tuple[str, str]]:
    since, until = understood.pick("since", Moment), understood.pick("until", Moment)
    twice = [key for key, moments in (("since", since), ("until", until)) if len(moments) > 1]
    yield from ((key, f"{key} is given twice") for key in twice)
    if not twice and since and until and _is_over_before(since[0], until[0]):
        yield "until", f"until:{until[0]} ends before since:{since[0]} begins; swap them"


def _is_over_before(since: Moment, until: Moment) -> bool:
    """Return whether it certainly is; a duration and a time can be compared only by the database's clock."""
    if since.ago is not None and until.ago is not None:
        return since.ago < until.ago
    return since.at is not None and until.at is not None and since.at > until.at
