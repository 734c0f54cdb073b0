"""The elements of a filter language: kinds of values, keys, and the words of each thing that is filtered."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.query.conditions import Sql

BARE: Final = ""
"""The key of words without a key: a part of the name, or the beginning or end of the id."""


class Kind(Enum):
    """How the values of a key are read."""

    STATUS = auto()
    TEXT = auto()
    ID = auto()
    WORKFLOW = auto()
    PART = auto()
    HAS = auto()
    MOMENT = auto()
    TRIES = auto()
    SPAN = auto()
    PAST = auto()
    """A length of time before now, or moments."""

    @property
    def any_of(self) -> bool:
        """Whether several values mean any of them. For the other kinds all must hold, so a comma would mislead."""
        return self not in (Kind.HAS, Kind.MOMENT, Kind.TRIES, Kind.SPAN, Kind.PAST)

    @property
    def can_be_negated(self) -> bool:
        return self not in (Kind.MOMENT, Kind.TRIES, Kind.SPAN, Kind.PAST)


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


def keyed(*keys: Key) -> Mapping[str, Key]:
    return {key.name: key for key in keys}
