"""The drawing of a graph with very many nodes: one sign per node, layer after layer, without lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies_tui.workflow.graph_page import Drawing, Spot

if TYPE_CHECKING:
    from horsies_tui.workflow.graph import Arrangement


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
