"""Converts durations to places on a line: in proportion, with at least one place for each if the width allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def places(lengths: Sequence[float], width: int) -> tuple[int, ...]:
    """The number of places, of `width`, for each length. They add up to `width` if any length is positive.

    Each positive length has at least one place, and a longer one never fewer than a shorter one. Those places are taken
    from the others in proportion. With more lengths than places, the longest have one each.
    """
    positive = sorted((index for index, length in enumerate(lengths) if length > 0), key=lambda at: -lengths[at])
    if not positive or width <= 0:
        return (0,) * len(lengths)
    if len(positive) >= width:
        chosen = set(positive[:width])
        return tuple(int(index in chosen) for index in range(len(lengths)))
    small = _smallest(lengths, positive, width)
    given = dict.fromkeys(positive[len(positive) - small :], 1)
    return _shared(lengths, positive[: len(positive) - small], width - small, given)


def _smallest(lengths: Sequence[float], longest_first: list[int], width: int) -> int:
    """How many of the shortest would get less than one place, when the others share what is left."""
    total = sum(lengths[index] for index in longest_first)
    aside = 0
    for index in reversed(longest_first[1:]):
        if lengths[index] * (width - aside) >= total:
            break
        total -= lengths[index]
        aside += 1
    return aside


def _shared(lengths: Sequence[float], longest_first: list[int], width: int, given: dict[int, int]) -> tuple[int, ...]:
    """Whole places in proportion; the rest goes to the largest remainders, and among equal ones to the longest."""
    total = sum(lengths[index] for index in longest_first)
    exact = {index: lengths[index] / total * width for index in longest_first}
    given |= {index: max(int(share), 1) for index, share in exact.items()}
    left = width - sum(given[index] for index in longest_first)
    for index in sorted(longest_first, key=lambda at: int(exact[at]) - exact[at])[: max(left, 0)]:
        given[index] += 1
    return tuple(given.get(index, 0) for index in range(len(lengths)))
