"""The layout of a workflow's graph: nodes in layers after their dependencies, and the row of each."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import floor
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SWEEPS: Final = 4
_MANY_LINES: Final = 3_000
"""With more lines the order makes no visible difference, and a pass takes 10 ms."""
_ROW_SWEEPS: Final = 3
_STRAIGHT: Final = 4.0
"""The weight of a passage against that of a node: a long line with a step in it is hard to follow."""


class Vertex(NamedTuple):
    """A node by its number, and the numbers of its dependencies."""

    key: int
    needs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`layers` hold knots from the first layer to the last: nodes by their key, and passages by numbers below zero.

    A line across several layers has a passage in each layer between; lines that all lead to the same nodes share one.
    `nexts` are the knots of the next layer that a knot is connected with.
    """

    layers: tuple[tuple[int, ...], ...] = ()
    nexts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    left_out: frozenset[tuple[int, int]] = frozenset()
    """Omitted lines, as (from, to): of a cycle, which a damaged workflow may have, or from a missing node."""

    def befores(self) -> dict[int, list[int]]:
        """Return, for each knot, the connected knots of the previous layer."""
        found: dict[int, list[int]] = {knot: [] for layer in self.layers for knot in layer}
        for knot, after in self.nexts.items():
            for next_knot in after:
                found[next_knot].append(knot)
        return found


def arrange(vertices: Sequence[Vertex]) -> Arrangement:
    """Deterministic: the same nodes always get the same places, so that nodes do not move between snapshots."""
    depth, left_out = _depths(vertices)
    follow: dict[int, list[int]] = {vertex.key: [] for vertex in vertices}
    for vertex in vertices:
        for need in dict.fromkeys(vertex.needs):
            if (need, vertex.key) not in left_out:
                follow[need].append(vertex.key)
    layers, nexts = _with_passages(depth, follow)
    plain = Arrangement(tuple(map(tuple, layers)), nexts, left_out)
    return replace(plain, layers=tuple(map(tuple, _ordered(plain))))


def _depths(vertices: Sequence[Vertex]) -> tuple[dict[int, int], frozenset[tuple[int, int]]]:
    """The layer of each node; in a cycle the line that closes it is left out."""
    known = {vertex.key for vertex in vertices}
    left_out = {(need, vertex.key) for vertex in vertices for need in vertex.needs if need not in known}
    waits = {vertex.key: set(vertex.needs) & known - {vertex.key} for vertex in vertices}
    left_out |= {(vertex.key, vertex.key) for vertex in vertices if vertex.key in vertex.needs}
    follow: dict[int, list[int]] = {key: [] for key in waits}
    for key, needs in waits.items():
        for need in needs:
            follow[need].append(key)
    depth: dict[int, int] = {}
    free = [key for key, needs in waits.items() if not needs]
    placed: dict[int, int] = dict.fromkeys(free, 0)
    left = dict.fromkeys(waits)
    while left:
        if not free:
            stuck = next(iter(left))
            left_out |= {(need, stuck) for need in waits[stuck]}
            waits[stuck].clear()
            free.append(stuck)
        key = free.pop()
        del left[key]
        depth[key] = placed.setdefault(key, 0)
        for after in follow[key]:
            if key in waits[after]:
                waits[after].remove(key)
                placed[after] = max(placed.get(after, 0), depth[key] + 1)
                if not waits[after]:
                    free.append(after)
    return depth, frozenset(left_out)


def _with_passages(
    depth: Mapping[int, int], follow: Mapping[int, Sequence[int]]
) -> tuple[list[list[int]], dict[int, tuple[int, ...]]]:
    layers: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for key in follow:
        layers[depth[key]].append(key)
    nexts: dict[int, tuple[int, ...]] = {}
    ahead: dict[int, frozenset[int]] = {key: frozenset(after) for key, after in follow.items()}
    passages = 0
    for number, layer in enumerate(layers[:-1]):
        shared: dict[frozenset[int], int] = {}
        for knot in layer:
            beyond = frozenset(key for key in ahead[knot] if depth[key] > number + 1)
            here = tuple(sorted(ahead[knot] - beyond))
            if beyond and beyond not in shared:
                passages -= 1
                shared[beyond] = passages
                ahead[passages] = beyond
            nexts[knot] = (*here, shared[beyond]) if beyond else here
        layers[number + 1] += shared.values()
    return layers, nexts


def _ordered(arranged: Arrangement) -> Sequence[Sequence[int]]:
    """Each knot near the mean of its neighbours, in passes in both directions."""
    befores, nexts = arranged.befores(), arranged.nexts
    best = _sorted_by(arranged.layers, befores)
    if sum(map(len, nexts.values())) > _MANY_LINES:
        return best
    fewest = _crossings(best, nexts)
    for _ in range(_SWEEPS):
        tried = _sorted_by(_sorted_by(best[::-1], nexts)[::-1], befores)
        crossings = _crossings(tried, nexts)
        if crossings >= fewest:
            break
        best, fewest = tried, crossings
    return best


def _sorted_by(layers: Sequence[Sequence[int]], beside: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Each layer sorted by the layer before it. Knots without lines to that layer keep their places."""
    done: list[list[int]] = []
    place: dict[int, float] = {}
    for layer in layers:
        middle: dict[int, float] = {}
        last = -1.0
        for knot in layer:
            lines = [place[other] for other in beside.get(knot, ()) if other in place]
            last = middle[knot] = sum(lines) / len(lines) if lines else last
        ordered = sorted(layer, key=middle.__getitem__)
        size = max(len(ordered) - 1, 1)
        place |= {knot: index / size if len(ordered) > 1 else 0.5 for index, knot in enumerate(ordered)}
        done.append(ordered)
    return done


def _crossings(layers: Iterable[Sequence[int]], nexts: Mapping[int, tuple[int, ...]]) -> int:
    place = {knot: index for layer in layers for index, knot in enumerate(layer)}
    crossings = 0
    for layer in layers:
        ends: list[int] = []
        for knot in layer:
            mine = sorted(place[after] for after in nexts.get(knot, ()))
            crossings += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return crossings


def wanted_rows(arranged: Arrangement, node_rows: int) -> dict[int, float]:
    """The preferred row of each knot; a node takes `node_rows` rows and a passage one."""
    befores = arranged.befores()
    rows: dict[int, float] = {}
    for layer in arranged.layers:
        rows |= zip(layer, map(float, _starts(layer, node_rows)), strict=True)
    ways = [(arranged.layers[1:], befores), (arranged.layers[-2::-1], arranged.nexts)]
    for number in range(2 * _ROW_SWEEPS - 1):
        layers, beside = ways[number % 2]
        for layer in layers:
            wanted = [_mean(beside.get(knot, ()), rows, rows[knot]) for knot in layer]
            rows |= zip(layer, _spread(wanted, layer, node_rows), strict=True)
    return rows


def placed_rows(
    layer: Sequence[int], wanted: Mapping[int, float], node_rows: int, avoid: Mapping[int, set[int]]
) -> dict[int, int]:
    """Whole rows in the layer's order, near the preferred ones; `avoid` are rows that a knot must not take."""
    rows: dict[int, int] = {}
    least: int | None = None
    for knot, want in zip(layer, _spread([wanted[knot] for knot in layer], layer, node_rows), strict=True):
        # Halves are always rounded up: rounding to even would separate every other pair.
        row = floor(want + 0.5) if least is None else max(floor(want + 0.5), least)
        while row in avoid.get(knot, ()):
            row += 1
        rows[knot] = row
        least = row + _height(knot, node_rows)
    return rows


def _height(knot: int, node_rows: int) -> int:
    return node_rows if knot >= 0 else 1


def _starts(layer: Sequence[int], node_rows: int) -> list[int]:
    """The rows of the knots if they stand as close as possible."""
    return list(accumulate((_height(knot, node_rows) for knot in layer[:-1]), initial=0))


def _mean(beside: Sequence[int], rows: Mapping[int, float], own: float) -> float:
    return sum(rows[knot] for knot in beside) / len(beside) if beside else own


def _spread(wanted: Sequence[float], layer: Sequence[int], node_rows: int) -> list[float]:
    """Place the knots as near to the preferred rows as possible, in order and without overlap: least squares."""
    starts = _starts(layer, node_rows)
    blocks: list[tuple[float, float, int]] = []
    for want, start, knot in zip(wanted, starts, layer, strict=True):
        mean, weight, count = want - start, 1.0 if knot >= 0 else _STRAIGHT, 1
        while blocks and blocks[-1][0] >= mean:
            other, weighs, many = blocks.pop()
            mean = (mean * weight + other * weighs) / (weight + weighs)
            weight, count = weight + weighs, count + many
        blocks.append((mean, weight, count))
    means = (mean for mean, _, count in blocks for _ in range(count))
    return [mean + start for mean, start in zip(means, starts, strict=True)]
