"""The lines between two layers of a graph: each bundle of lines has its own vertical stroke.

To read a drawing: from a node to the right; where a vertical stroke has an arm to the left, into the stroke, up or
down; where it has an arm to the right, out of it. A line that meets a stroke without an arm to the left passes below
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Bundle:
    """All lines from knots that lead to the same knots, as rows. A straight one needs no stroke."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]

    @property
    def is_straight(self) -> bool:
        return self.sources == self.targets and len(self.sources) == 1

    @property
    def top(self) -> int:
        return min(*self.sources, *self.targets)

    @property
    def bottom(self) -> int:
        return max(*self.sources, *self.targets)

    @property
    def falls(self) -> int:
        """Negative if the bundle rises."""
        return sum(self.targets) * len(self.sources) - sum(self.sources) * len(self.targets)


def bundles(
    layer: Sequence[int], nexts: Mapping[int, tuple[int, ...]], here: Mapping[int, int], there: Mapping[int, int]
) -> list[Bundle]:
    """The bundles between two layers; `here` are the rows of this layer's knots and `there` those of the next one."""
    by_targets: dict[tuple[int, ...], list[int]] = {}
    for knot in layer:
        if nexts.get(knot):
            by_targets.setdefault(nexts[knot], []).append(here[knot])
    return [
        Bundle(tuple(sorted(sources)), tuple(sorted(there[knot] for knot in targets)))
        for targets, sources in by_targets.items()
    ]


def strokes(found: Sequence[Bundle]) -> dict[Bundle, int] | set[int]:
    """The column of each bundle's stroke, from 0 on; if there is no solution, the rows of targets that prevent one.

    If one bundle's target is in the row of another's source, the other's stroke must come first: otherwise the line to
    the target would lead into it.
    """
    upright = [bundle for bundle in found if not bundle.is_straight]
    of_source = {row: index for index, bundle in enumerate(upright) for row in bundle.sources}
    first: list[set[int]] = [set() for _ in upright]
    for index, bundle in enumerate(upright):
        first[index] = {of_source[row] for row in bundle.targets if row in of_source} - {index}
    columns: dict[Bundle, int] = {}
    after: list[list[int]] = [[] for _ in upright]
    for index, befores in enumerate(first):
        for other in befores:
            after[other].append(index)
    least = [0] * len(upright)
    waits = [len(befores) for befores in first]
    free = [(_turn(upright[index]), index) for index, count in enumerate(waits) if not count]
    heapify(free)
    ends: list[list[tuple[int, int]]] = []
    while free:
        _, index = heappop(free)
        column = _room_for(upright[index], ends, least[index])
        columns[upright[index]] = column
        for other in after[index]:
            least[other] = max(least[other], column + 1)
            waits[other] -= 1
            if not waits[other]:
                heappush(free, (_turn(upright[other]), other))
    stuck = [index for index, count in enumerate(waits) if count]
    if not stuck:
        return columns
    return {
        row for index in stuck for row in upright[index].targets if of_source.get(row, index) in set(stuck) - {index}
    }


def _turn(bundle: Bundle) -> tuple[int, int]:
    """Falling lines from the lowest up, rising ones from the highest down, so that they do not cross."""
    middle = bundle.top + bundle.bottom
    return (0, middle) if bundle.falls < 0 else (1, -middle)


def _room_for(bundle: Bundle, taken: list[list[tuple[int, int]]], least: int) -> int:
    """The first column from `least` on that is free in all of the bundle's rows."""
    column = least
    while len(taken) <= column or any(top <= bundle.bottom and bundle.top <= bottom for top, bottom in taken[column]):
        if len(taken) <= column:
            taken.append([])
            continue
        column += 1
    taken[column].append((bundle.top, bundle.bottom))
    return column
