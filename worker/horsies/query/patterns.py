"""The conditions on a column that all languages share: texts and their patterns, bare words, moments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from horsies.query.language import BARE
from horsies.query.reading import LONGEST_ID, looks_like_id
from horsies.query.sense import yes_and_no
from horsies.query.values import Glob, Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.query.tree import Filter


_HOST_AND_PID: Final = re.compile("(.+):([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Texts:
    """One text column: equal to any of `exact`, or LIKE any of `like`; at most one of the two is set.

    The negated ones exclude: rows whose column is NULL stay. LIKE patterns are escaped with a backslash.
    """

    exact: tuple[str, ...] | None = None
    like: tuple[str, ...] | None = None
    not_exact: tuple[str, ...] | None = None
    not_like: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Bare words: the name is LIKE any of `name_like`, or the id LIKE any of `id_like`; never the latter alone."""

    name_like: tuple[str, ...] | None = None
    id_like: tuple[str, ...] | None = None
    not_name_like: tuple[str, ...] | None = None
    not_id_like: tuple[str, ...] | None = None


def yes_or_no(understood: Filter, key: str) -> bool | None:
    """None if both match."""
    left = yes_and_no(understood, key)
    return None if len(left) > 1 else "yes" in left


def moment(understood: Filter, key: str) -> Moment:
    return next(iter(understood.pick(key, Moment)), Moment(""))


def _text_patterns(glob: Glob) -> tuple[str, ...]:
    return (glob.like,)


def id_patterns(glob: Glob) -> tuple[str, ...]:
    """A part of an id without wildcards is its beginning or its end: screens show either."""
    whole = glob.exact is None or len(glob.exact) == LONGEST_ID
    return (glob.like,) if whole else (f"{glob.like}%", f"%{glob.like}")


def worker_patterns(glob: Glob) -> tuple[str, ...]:
    """Lists show a worker as `host:pid`; its id is `host-pid-` and a suffix that distinguishes its starts."""
    named = _HOST_AND_PID.fullmatch(glob.like)
    return (glob.like,) if named is None else (glob.like, f"{named[1]}-{named[2]}-%")


def _name_part(glob: Glob) -> tuple[str, ...]:
    return (glob.like if glob.exact is None else f"%{glob.like}%",)


def _id_part(glob: Glob) -> tuple[str, ...]:
    return id_patterns(Glob(glob.pattern.lower())) if looks_like_id(glob) else ()


_Patterns: TypeAlias = "Callable[[Glob], tuple[str, ...]]"


def every(globs: tuple[Glob, ...], patterns: _Patterns) -> tuple[str, ...] | None:
    """The patterns of all of them, each once; None rather than none."""
    return tuple(dict.fromkeys(pattern for glob in globs for pattern in patterns(glob))) or None


def texts(understood: Filter, key: str, patterns: _Patterns = _text_patterns) -> Texts:
    exact, like = _exact_or_like(understood.pick(key, Glob), patterns)
    not_exact, not_like = _exact_or_like(understood.pick(key, Glob, negated=True), patterns)
    return Texts(exact, like, not_exact, not_like)


def _exact_or_like(
    globs: tuple[Glob, ...], patterns: _Patterns
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Equality if all values allow it, because only equality uses an index; otherwise patterns for all."""
    exact = [glob.exact for glob in globs if glob.exact is not None and patterns(glob) == (glob.like,)]
    if len(exact) == len(globs):
        return tuple(exact) or None, None
    return None, every(globs, patterns)


def bare_words(understood: Filter) -> Words:
    wanted, excluded = understood.pick(BARE, Glob), understood.pick(BARE, Glob, negated=True)
    return Words(
        every(wanted, _name_part), every(wanted, _id_part), every(excluded, _name_part), every(excluded, _id_part)
    )
