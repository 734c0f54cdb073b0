"""The rows in view and the cursor of a list, which stay on their ids while rows are added and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from horsies_tui.look.cells import RowT

if TYPE_CHECKING:
    from collections.abc import Mapping


class Viewport(Generic[RowT]):
    """The part of the rows that is in view: `height` rows from `top`, including the cursor's.

    If the row under the cursor disappears, no row is `chosen` until the operator moves, so that a verb does not act on
    a different row. In lists without verbs, which do not set `lets_go`, the cursor moves to the neighbour.
    """

    def __init__(self, *, lets_go: bool = True) -> None:
        self._lets_go = lets_go
        self.rows: tuple[RowT, ...] = ()
        self.cursor = 0
        """Index of the cursor's row; while no row is chosen, the place where the next step begins."""
        self.chosen = True
        self.top = 0
        self.height = 1

    @property
    def cursor_row(self) -> RowT | None:
        return self.rows[self.cursor] if self.rows and self.chosen else None

    @property
    def cursor_id(self) -> str | None:
        return None if self.cursor_row is None else self.cursor_row.id

    @property
    def in_view(self) -> tuple[RowT, ...]:
        return self.rows[self.top : self.top + self.height]

    @property
    def above(self) -> int:
        """Return the number of rows above the view."""
        return self.top

    @property
    def below(self) -> int:
        """Return the number of rows below the view."""
        return max(len(self.rows) - self.top - self.height, 0)

    def take(self, rows: tuple[RowT, ...], *, stick: bool = False) -> None:
        """Replace the rows. The cursor stays on its row and its line; with `stick` the view stays at the first row."""
        line, before = self.cursor - self.top, self.rows
        self.rows = rows
        places = {row.id: index for index, row in enumerate(rows)}
        if before:
            self.chosen = not self._lets_go or (self.chosen and before[self.cursor].id in places)
            self.cursor = self._same_or_next(before, places)
        self.top = self.cursor - line
        if stick:
            self.top = 0
            if not self.chosen or self.cursor >= self.height:
                # The newest rows stay in view, and the chosen row has left the view.
                self.chosen, self.cursor = self.chosen and self.cursor < self.height, 0
        self._keep_in_bounds()

    def resize(self, height: int) -> None:
        self.height = max(height, 1)
        self._keep_in_bounds()

    def move_to(self, index: int) -> None:
        self.cursor, self.chosen = index, True
        self._keep_in_bounds()

    def step(self, rows: int) -> None:
        """Move by this many rows down (negative: up). If no row is chosen, choose the one at the cursor's place."""
        self.move_to(self.cursor + (rows if self.chosen else 0))

    def page(self, pages: int) -> None:
        """Move by screens, which overlap by one row."""
        step = pages * max(self.height - 1, 1)
        self.top += step
        self.cursor += step
        self.chosen = True
        self._keep_in_bounds()

    def index_of(self, row_id: str) -> int | None:
        return next((index for index, row in enumerate(self.rows) if row.id == row_id), None)

    def _same_or_next(self, before: tuple[RowT, ...], places: Mapping[str, int]) -> int:
        """Return the new index of the cursor's row; if removed, that of the next row below, else above, else 0."""
        for row in (*before[self.cursor :], *reversed(before[: self.cursor])):
            if row.id in places:
                return places[row.id]
        return 0

    def _keep_in_bounds(self) -> None:
        last = max(len(self.rows) - 1, 0)
        self.cursor = min(max(self.cursor, 0), last)
        if not self.top <= self.cursor < self.top + self.height:
            # Scrolling by single lines would send the screen (13 kB) for each key; this does so at each twentieth.
            self.top = self.cursor - self.height // 2
        self.top = min(max(self.top, 0), max(len(self.rows) - self.height, 0))
