"""The elements of a filter language: its keys and words, and a filter in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

from horsies.query.values import Glob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from horsies.query.values import Value


BARE: Final = ""
"""The key of words without a key: a part of the name, or the beginning or end of the id."""


ValueT = TypeVar("ValueT", bound="Value")


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
    """Holds for the rows that `key` asks for. `{0}`, `{1}` in `sql` are the places of `values`."""

    key: str
    sql: str
    values: tuple[object, ...] = ()
    indexed: bool = False
    """Whether an index may serve it: a column equal to any of the texts in `values`, or a bound of the time."""


class Sql(Protocol):
    """The conditions of one key, made of the values that a filter has for it."""

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
    """The keys and states of one kind of thing; used by the parser, the completion and the help."""

    thing: str
    keys: Mapping[str, Key]
    states: Mapping[str, frozenset[str]]
    """What each word after `status:` includes."""
    states_elsewhere: Mapping[str, str]
    """Names that other tools use for these words."""
    grammar: tuple[str, ...]
    example: str
    statuses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The stored statuses in the order of their life, each with the states that it is shown as."""
    bare: Sql | None = None

    @property
    def every_state(self) -> frozenset[str]:
        return frozenset[str]().union(*self.states.values())

    @property
    def said_elsewhere(self) -> dict[str, str]:
        """Names that other tools use for the keys."""
        return {word: key.name for key in self.keys.values() for word in key.also}

    def describe(self) -> str:
        """The whole language for `--help` and `?`."""
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
        """The values of that kind that the filter includes, or excludes, under `key`."""
        return tuple(
            value
            for term in self.terms
            if term.key == key and term.negated is negated
            for value in term.values
            if isinstance(value, kind)
        )


def keyed(*keys: Key) -> Mapping[str, Key]:
    return {key.name: key for key in keys}
