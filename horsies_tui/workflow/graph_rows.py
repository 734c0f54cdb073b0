"""The row of each knot of a graph: lines as straight as possible, no two knots in one place."""

from __future__ import annotations

from itertools import accumulate
from math import floor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from horsies_tui.workflow.graph import Arrangement

_SWEEPS: Final = 3
_STRAIGHT: Final = 4.0
"""The weight of a passage against that of a node: a long line with a step in it is hard to follow."""


def wanted_rows(arranged: Arrangement, node_rows: int) -> dict[int, float]:
    """The preferred row of each knot; a node takes `node_rows` rows and a passage one."""
    befores = arranged.befores()
    rows: dict[int, float] = {}
    for layer in arranged.layers:
        rows |= zip(layer, map(float, _starts(layer, node_rows)), strict=True)
    ways = [(arranged.layers[1:], befores), (arranged.layers[-2::-1], arranged.nexts)]
    for number in range(2 * _SWEEPS - 1):
        layers, beside = ways[number % 2]
        for layer in layers:
            wanted = [_mean(beside.get(knot, ()), rows, rows[knot]) for knot in layer]
            rows |= zip(layer, _spread(wanted, layer, node_rows), strict=True)
    return rows


def settled(
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
    """As near to the preferred rows as possible, in this order and without overlap: least squares."""
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
