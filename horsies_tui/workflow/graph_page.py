"""A graph drawn at one size: its lines as text, the place of each node, and the cursor's ways between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from horsies_tui.workflow.graph import placed_rows, wanted_rows
from horsies_tui.workflow.graph_lines import Bundle, bundles, strokes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from horsies_tui.workflow.graph import Arrangement

LINE: Final = "─"
_STROKES: Final = {
    # Keys are the arms of a stroke: up, down, left, right.
    (True, True, False, False): "│",
    (True, True, True, False): "┤",
    (True, True, False, True): "├",
    (True, True, True, True): "┼",
    (True, False, True, False): "┘",
    (True, False, False, True): "└",
    (True, False, True, True): "┴",
    (False, True, True, False): "┐",
    (False, True, False, True): "┌",
    (False, True, True, True): "┬",
}
Way: TypeAlias = Literal["up", "down", "left", "right"]


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of nodes: `label` is the greatest width and `rows` the height; `apart` is the distance of strokes.

    `extras`: with the facts after the name.
    """

    label: int
    rows: int
    apart: int
    extras: bool = False


class Wants(NamedTuple):
    """The places that a label asks for: for its name, and for the facts after it."""

    name: int
    extra: int


class Spot(NamedTuple):
    """The place of a node's label: from column `x` on, at most this wide, in row `y`."""

    x: int
    y: int
    width: int
    layer: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """The lines, each `width` long. Labels are drawn over them: a node with successors has a line below its label."""

    width: int = 0
    lines: tuple[str, ...] = ()
    spots: Mapping[int, Spot] = field(default_factory=dict)
    rows: int = 1
    is_map: bool = False
    """Without lines; neighbouring nodes need not be related."""

    @property
    def height(self) -> int:
        return len(self.lines)


def draw(arranged: Arrangement, scale: Scale, wants: Mapping[int, Wants]) -> Drawing:
    """Each layer is as wide as its widest label asks for, within the scale."""
    rows, strokes_of = _place_rows(arranged, scale.rows)
    top = min(rows.values(), default=0)
    spots: dict[int, Spot] = {}
    grid = _CharacterGrid(max((row - top + 1 for row in rows.values()), default=0))
    x = 0
    for number, layer in enumerate(arranged.layers):
        widths = [wants[knot].name + wants[knot].extra * scale.extras for knot in layer if knot >= 0]
        label = min(max(widths, default=0), scale.label)
        found, columns = strokes_of[number]
        for knot in layer:
            row = rows[knot] - top
            if knot >= 0:
                spots[knot] = Spot(x, row, label, number)
            if arranged.nexts.get(knot):
                grid.put(row, x, LINE * (label + 1))
        x = _draw_gap(grid, x + label + 1, found, columns, top, scale.apart)
        passages = {
            rows[knot] - top for after in arranged.layers[number + 1 : number + 2] for knot in after if knot < 0
        }
        for row in passages:
            grid.put(row, x - 1, LINE)
    width = max((spot.x + spot.width for spot in spots.values()), default=0)
    lines = grid.lines(width, below=scale.rows - 1)
    return Drawing(width, lines, spots, scale.rows)


def _place_rows(
    arranged: Arrangement, node_rows: int
) -> tuple[dict[int, int], list[tuple[list[Bundle], Mapping[Bundle, int]]]]:
    """The row of each knot, and for each layer the bundles that leave it with the columns of their strokes."""
    wanted = wanted_rows(arranged, node_rows)
    rows: dict[int, int] = {}
    gaps: list[tuple[list[Bundle], Mapping[Bundle, int]]] = []
    for number, layer in enumerate(arranged.layers):
        if number == 0:
            rows |= placed_rows(layer, wanted, node_rows, {})
            continue
        before = arranged.layers[number - 1]
        taken = {rows[knot] for knot in before if arranged.nexts.get(knot)}
        moved: set[int] = set()
        while True:
            here = placed_rows(layer, wanted, node_rows, dict.fromkeys(moved, taken))
            found = bundles(before, arranged.nexts, rows, here)
            columns = strokes(found)
            if not isinstance(columns, set):
                break
            moved |= {knot for knot in layer if here[knot] in columns}
        rows |= here
        gaps.append((found, columns))
    gaps.append(([], {}))
    return rows, gaps


def _draw_gap(
    grid: _CharacterGrid, x: int, found: Sequence[Bundle], columns: Mapping[Bundle, int], top: int, apart: int
) -> int:
    """Draw the lines to the next layer, from `x` on; returns the column where that layer begins."""
    count = max(columns.values(), default=-1) + 1
    end = x + 2 + (count - 1) * (apart + 1) + 2 if count else x + 2
    first_stroke: dict[int, int] = {}
    for bundle in found:
        at = x + 1 + columns[bundle] * (apart + 1) if bundle in columns else x
        for row in bundle.sources:
            grid.put(row - top, x, LINE * (at - x))
        for row in bundle.targets:
            first_stroke[row] = min(first_stroke.get(row, at), at)
    for row, at in first_stroke.items():
        grid.put(row - top, at, LINE * (end - 1 - at))
    for bundle, column in columns.items():
        at = x + 1 + column * (apart + 1)
        sources, targets = set(bundle.sources), set(bundle.targets)
        # A stroke that leads to a single node may also take in another line to that node.
        met = {row for row in targets if len(targets) == 1 and first_stroke[row] < at}
        for row in range(bundle.top, bundle.bottom + 1):
            arms = (row > bundle.top, row < bundle.bottom, row in sources | met, row in targets)
            grid.put(row - top, at, _STROKES[arms])
    return end


class _CharacterGrid:
    """Rows of characters; later ones overwrite earlier ones."""

    def __init__(self, height: int) -> None:
        self._rows: list[dict[int, str]] = [{} for _ in range(height)]

    def put(self, row: int, x: int, text: str) -> None:
        """Write one character per place."""
        self._rows[row] |= {x + offset: sign for offset, sign in enumerate(text)}

    def lines(self, width: int, *, below: int) -> tuple[str, ...]:
        lines = ["".join(row.get(x, " ") for x in range(width)) for row in self._rows]
        return (*lines, *[" " * width] * below)


def draw_map(arranged: Arrangement, width: int) -> Drawing:
    """Filled like text: a blank between two layers, and a layer that is too wide continues on the next line."""
    spots: dict[int, Spot] = {}
    x = y = 0
    width = max(width, 1)
    for number, layer in enumerate(arranged.layers):
        nodes = [knot for knot in layer if knot >= 0]
        if x and x + min(len(nodes), width) > width:
            x, y = 0, y + 1
        for key in nodes:
            if x >= width:
                x, y = 0, y + 1
            spots[key] = Spot(x, y, 1, number)
            x += 1
        x += 1
    lines = (" " * width,) * (y + 1) if spots else ()
    return Drawing(width if spots else 0, lines, spots, is_map=True)


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
    """Move as in a text."""
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
