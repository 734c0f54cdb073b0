"""The meaning of all words of a filter combined, and whether it can match anything."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from horsies.query.language import Kind
from horsies.query.values import Choice, Glob, Moment, Range, Times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.query.language import Filter, Language

BoundT = TypeVar("BoundT", int, datetime)


def states(understood: Filter) -> frozenset[str]:
    """The states that are included and not excluded."""
    language = understood.language
    wanted = _covered(understood.pick("status", Choice), language) or language.every_state
    return wanted - _covered(understood.pick("status", Choice, negated=True), language)


def _covered(choices: tuple[Choice, ...], language: Language) -> frozenset[str]:
    return frozenset(state for choice in choices for state in language.states[choice.word])


def yes_and_no(understood: Filter, key: str) -> frozenset[str]:
    """`yes` and `no`, as far as they are included and not excluded."""
    wanted = {choice.word for choice in understood.pick(key, Choice)} or {"yes", "no"}
    return frozenset(wanted) - {choice.word for choice in understood.pick(key, Choice, negated=True)}


def bounds(understood: Filter, key: str) -> tuple[int | None, int | None]:
    """The minimum and the maximum that all ranges of the key allow."""
    ranges = understood.pick(key, Range)
    return _common([each.low for each in ranges], [each.high for each in ranges])


def times(understood: Filter, key: str) -> tuple[datetime | None, datetime | None]:
    """The first and the last moment that all ranges of the key allow."""
    ranges = understood.pick(key, Times)
    return _common([each.low for each in ranges], [each.high for each in ranges])


def _common(lows: list[BoundT | None], highs: list[BoundT | None]) -> tuple[BoundT | None, BoundT | None]:
    low = max((each for each in lows if each is not None), default=None)
    return low, min((each for each in highs if each is not None), default=None)


def contradictions(understood: Filter) -> Iterator[tuple[str, str]]:
    """Each key whose conditions exclude each other, and why."""
    thing, keys = understood.language.thing, understood.language.keys.values()
    if not states(understood):
        yield "status", "no state is left: all that are asked for are excluded too"
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
        yield key, f"no {understood.language.thing} is left: all that are asked for are excluded too"


def _impossible_times(understood: Filter) -> Iterator[tuple[str, str]]:
    since, until = understood.pick("since", Moment), understood.pick("until", Moment)
    twice = [key for key, moments in (("since", since), ("until", until)) if len(moments) > 1]
    yield from ((key, f"{key} is given twice") for key in twice)
    if not twice and since and until and _is_over_before(since[0], until[0]):
        yield "until", f"until:{until[0]} ends before since:{since[0]} begins; swap them"


def _is_over_before(since: Moment, until: Moment) -> bool:
    """Return whether this is certain: a duration and a time can be compared by the database's clock only."""
    if since.ago is not None and until.ago is not None:
        return since.ago < until.ago
    return since.at is not None and until.at is not None and since.at > until.at
