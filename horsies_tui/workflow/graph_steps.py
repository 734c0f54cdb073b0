"""Cursor movement on a graph: along its lines if possible, else to the nearest node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from horsies_tui.workflow.graph_page import Drawing, Spot

Way: TypeAlias = Literal["up", "down", "left", "right"]


def step(drawing: Drawing, key: int, way: Way, beside: Mapping[int, Collection[int]]) -> int:
    """The node one step away, or the same node. `beside` are the nodes connected with each."""
    spot = drawing.spots[key]
    if drawing.is_map:
        return _on_map(drawing, spot, key, way)
    if way in ("up", "down"):
        column = sorted((other.y, each) for each, other in drawing.spots.items() if other.layer == spot.layer)
        return column[_bounded(column.index((spot.y, key)) + (1 if way == "down" else -1), len(column))][1]
    onward = 1 if way == "right" else -1
    tied = {each for each in beside.get(key, ()) if (drawing.spots[each].layer - spot.layer) * onward > 0}
    near = tied or {each for each, other in drawing.spots.items() if other.layer == spot.layer + onward}
    return min(near, key=lambda each: _distance(drawing.spots[each], spot), default=key)


def _on_map(drawing: Drawing, spot: Spot, key: int, way: Way) -> int:
    """As in a text."""
    in_order = sorted(drawing.spots, key=lambda each: (drawing.spots[each].y, drawing.spots[each].x))
    if way in ("left", "right"):
        return in_order[_bounded(in_order.index(key) + (1 if way == "right" else -1), len(in_order))]
    row = spot.y + (1 if way == "down" else -1)
    there = (each for each, other in drawing.spots.items() if other.y == row)
    return min(there, key=lambda each: abs(drawing.spots[each].x - spot.x), default=key)


def _bounded(index: int, count: int) -> int:
    return min(max(index, 0), count - 1)


def _distance(spot: Spot, other: Spot) -> tuple[int, int]:
    """The nearest layer first, and in it the nearest row."""
    return abs(spot.layer - other.layer), abs(spot.y - other.y)
