"""The sizes at which a graph can be drawn, and the choice of the largest one that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies_tui.workflow.graph_page import Drawing, Scale, draw, draw_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies_tui.workflow.graph import Arrangement
    from horsies_tui.workflow.graph_page import Wants


@dataclass(frozen=True, slots=True)
class Size:
    """`scale` None: the map, one sign per node without lines."""

    name: str
    scale: Scale | None


SIZES: Final = (
    Size("facts", Scale(label=30, rows=2, apart=1, extras=True)),
    Size("names", Scale(label=30, rows=1, apart=1, extras=True)),
    Size("short names", Scale(label=12, rows=1, apart=0)),
    Size("signs", Scale(label=1, rows=1, apart=0)),
    Size("map", None),
)
"""The largest first."""
MAP: Final = 4
_NAMES: Final = 1
_SHORT: Final = 2
MANY: Final = 200
"""With more nodes than this, an overview of all of them is more useful than names to scroll through."""
_WIDE: Final = 110
_BESIDE: Final = 0.6
_FLAT: Final = 0.4
"""A layer with at most this part of the height in nodes leaves room below the graph."""
_LEAST_GAP: Final = 3
_MOST_PLACES: Final = 150_000
"""A larger drawing takes seconds and fills hundreds of screens."""


class Sizes:
    """The drawings of one graph, each made once."""

    def __init__(self, arranged: Arrangement, wants: Mapping[int, Wants]) -> None:
        self.arranged = arranged
        self._wants = wants
        self._drawings: dict[tuple[int, int], Drawing] = {}

    def drawing(self, size: int, width: int) -> Drawing:
        """`width` is the width that a map fills."""
        scale = SIZES[size].scale
        key = (size, width if scale is None else 0)
        if key not in self._drawings:
            arranged = self.arranged
            self._drawings[key] = draw_map(arranged, width) if scale is None else draw(arranged, scale, self._wants)
        return self._drawings[key]

    def whole(self, width: int, height: int) -> int:
        """The largest size that needs no scrolling; if there is none, the map."""
        return next((size for size in range(MAP) if self._fits(size, width, height)), MAP)

    def readable(self, width: int, height: int) -> int:
        """The largest size with names that needs no scrolling, else one that does, unless there are too many nodes."""
        whole = self.whole(width, height)
        if whole <= _SHORT or len(self._wants) > MANY:
            return whole
        return next((size for size in (_NAMES, _SHORT) if self._fits(size, width, None)), _SHORT)

    def beside(self, width: int, height: int) -> int | None:
        """Return the graph's width if the node's details should be beside it; None: below it."""
        highest = max(map(len, self.arranged.layers), default=0)
        most = int(width * _BESIDE)
        if width < _WIDE or highest <= height * _FLAT or len(self._wants) > MANY:
            return None
        if not self._fits(_NAMES, most, None):
            return None
        return max(self.drawing(_NAMES, most).width + 2, width - most)

    def can_draw(self, size: int) -> bool:
        """Return whether this size can be drawn. Large graphs use prepared drawings only: others take too long."""
        return len(self._wants) <= MANY or SIZES[size].scale is None or (size, 0) in self._drawings

    def prepare(self) -> None:
        """Draw all usable sizes, in a thread: for a thousand tangled nodes it takes seconds."""
        layers = self.arranged.layers
        knots = len(layers) * max(map(len, layers), default=0)
        for size, each in enumerate(SIZES):
            if each.scale is not None and knots * (each.scale.label + _LEAST_GAP) * each.scale.rows <= _MOST_PLACES:
                self.drawing(size, 0)

    def _fits(self, size: int, width: int, height: int | None) -> bool:
        """Return whether this size fits; without a height: into any height."""
        scale = SIZES[size].scale
        if scale is None or not self.can_draw(size) or not self._might_fit(scale, width, height):
            return False
        drawing = self.drawing(size, width)
        return drawing.width <= width and (height is None or drawing.height <= height)

    def _might_fit(self, scale: Scale, width: int, height: int | None) -> bool:
        """A quick check without drawing: the highest layer, and the least width of all layers with their gaps."""
        layers = self.arranged.layers
        highest = max((sum(scale.rows if knot >= 0 else 1 for knot in layer) for layer in layers), default=0)
        return (height is None or highest <= height) and len(layers) * (1 + _LEAST_GAP) - _LEAST_GAP <= width
