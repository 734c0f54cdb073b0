"""Dependencies as lines beside a list: each node on its own line, below all that it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MOST_RAILS: Final = 30
"""The limit of parallel lines; more cannot be followed by eye."""

_UNICODE: Final = {"node": "●", "down": "│", "across": "─", "right": "├", "left": "┤", "both": "┼"} | {
    "end right": "└",
    "end left": "┘",
    "end both": "┴",
}
_ASCII: Final = {"node": "*", "down": "|", "across": "-", **dict.fromkeys(("right", "left", "both"), "+")} | {
    "end right": "`",
    "end left": "'",
    "end both": "'",
}


@dataclass(frozen=True, slots=True)
class Railed:
    """A node and the lines before it. `unseen`: dependencies without a line, because of a cycle or a missing node."""

    index: int
    rails: str
    unseen: tuple[int, ...] = ()


def railed(needs: Mapping[int, Iterable[int]], *, unicode: bool = True) -> list[Railed]:
    """Return the nodes in an order in which each comes after all that it waits for. Too many lines are not drawn."""
    order = _order(needs)
    place = {index: number for number, index in enumerate(order)}
    seen = {
        index: tuple(need for need in dict.fromkeys(needs[index]) if place.get(need, len(place)) < place[index])
        for index in order
    }
    drawing = _Drawing(seen, _UNICODE if unicode else _ASCII)
    lines = [drawing.line(index) for index in order]
    if drawing.most > MOST_RAILS:
        return [Railed(index, "", tuple(dict.fromkeys(needs[index]))) for index in order]
    return [
        Railed(index, line, tuple(need for need in dict.fromkeys(needs[index]) if need not in seen[index]))
        for index, line in zip(order, lines, strict=True)
    ]


def _order(needs: Mapping[int, Iterable[int]]) -> list[int]:
    """Order one branch to its end before the next, which keeps the lines short. A cycle is cut at its lowest index."""
    waits = {index: {need for need in each if need in needs and need != index} for index, each in needs.items()}
    follow: dict[int, list[int]] = {index: [] for index in needs}
    for index, each in waits.items():
        for need in each:
            follow[need].append(index)
    free = sorted((index for index, each in waits.items() if not each), reverse=True)
    left = dict.fromkeys(sorted(needs))
    order: list[int] = []
    while left:
        index = free.pop() if free else next(iter(left))
        if index not in left:
            continue
        del left[index]
        order.append(index)
        for after in sorted(follow[index], reverse=True):
            waits[after].discard(index)
            if not waits[after] and after in left:
                free.append(after)
    return order


class _Drawing:
    """A drawing, line by line. A column has the node whose line runs down there."""

    def __init__(self, needs: Mapping[int, Sequence[int]], glyphs: Mapping[str, str]) -> None:
        self._needs = needs
        self._glyphs = glyphs
        self._left = dict.fromkeys(needs, 0)
        for each in needs.values():
            for need in each:
                self._left[need] += 1
        self._columns: list[int | None] = []
        self._ended: int | None = None
        self.most = 0

    def line(self, index: int) -> str:
        """Return the line of the next node."""
        columns = [column for column, node in enumerate(self._columns) if node in self._needs[index]]
        ending = [column for column in columns if self._ends_here(column)]
        own = ending[0] if ending else self._free_column()
        self.most = max(self.most, len(self._columns))
        low, high = min([own, *columns]), max([own, *columns])
        text = ""
        for column in range(len(self._columns)):
            text += self._sign(column, own, columns, low, high)
            text += self._glyphs["across"] if low <= column < high else " "
        self._go_on(index, own, columns, ending)
        return text.rstrip()

    def _ends_here(self, column: int) -> bool:
        node = self._columns[column]
        return node is not None and self._left[node] == 1

    def _free_column(self) -> int:
        """Return a free column, not below a node that has just ended: a line would seem to continue from there."""
        for column, node in enumerate(self._columns):
            if node is None and column != self._ended:
                return column
        self._columns.append(None)
        return len(self._columns) - 1

    def _sign(self, column: int, own: int, columns: Sequence[int], low: int, high: int) -> str:
        if column == own:
            return self._glyphs["node"]
        if column in columns:
            side = "right" if column == low else "left" if column == high else "both"
            return self._glyphs[f"end {side}" if self._ends_here(column) else side]
        if self._columns[column] is not None:
            return self._glyphs["down"]
        return self._glyphs["across"] if low < column < high else " "

    def _go_on(self, index: int, own: int, columns: Sequence[int], ending: Sequence[int]) -> None:
        for need in self._needs[index]:
            self._left[need] -= 1
        for column in ending:
            self._columns[column] = None
        self._columns[own] = index if self._left[index] else None
        self._ended = None if self._left[index] else own
        while self._columns and self._columns[-1] is None and len(self._columns) - 1 != self._ended:
            self._columns.pop()
