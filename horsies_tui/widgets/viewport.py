"""Which rows of a list are in view and where its cursor is, held on to by ids: rows come and go around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from horsies_tui.look.cells import RowT

if TYPE_CHECKING:
    from collections.abc import Mapping


class Viewport(Generic[RowT]):
    """`height` rows from `top` on are in view, the cursor's among them."""

    def __init__(self) -> None:
        self.rows: tuple[RowT, ...] = ()
        self.cursor = 0
        self.top = 0
        self.height = 1

    @property
    def cursor_row(self) -> RowT | None:
        return self.rows[self.cursor] if self.rows else None

    @property
    def cursor_id(self) -> str | None:
        return self.rows[self.cursor].id if self.rows else None

    @property
    def in_view(self) -> tuple[RowT, ...]:
        return self.rows[self.top : self.top + self.height]

    @property
    def above(self) -> int:
        """Rows before the first one in view."""
        return self.top

    @property
    def below(self) -> int:
        """Rows after the last one in view."""
        return max(len(self.rows) - self.top - self.height, 0)

    def take(self, rows: tuple[RowT, ...], *, stick: bool = False) -> None:
        """Other rows. The cursor stays on its row and its line; `stick`: one on the first stays on the first."""
        line, at_first, before = self.cursor - self.top, self.cursor == 0, self.rows
        self.rows = rows
        if stick and at_first:
            self.cursor = self.top = 0
        else:
            self.cursor = self._same_or_next(before, {row.id: index for index, row in enumerate(rows)})
            self.top = self.cursor - line
        self._keep_in_bounds()

    def resize(self, height: int) -> None:
        self.height = max(height, 1)
        self._keep_in_bounds()

    def move_to(self, index: int) -> None:
        self.cursor = index
        self._keep_in_bounds()

    def page(self, pages: int) -> None:
        """A screen up or down, with one row of it still in view."""
        step = pages * max(self.height - 1, 1)
        self.top += step
        self.cursor += step
        self._keep_in_bounds()

    def index_of(self, row_id: str) -> int | None:
        return next((index for index, row in enumerate(self.rows) if row.id == row_id), None)

    def _same_or_next(self, before: tuple[RowT, ...], places: Mapping[str, int]) -> int:
        """Where the cursor's row is now; where it is gone, the next that is left below it, else above it, else 0."""
        for row in (*before[self.cursor :], *reversed(before[: self.cursor])):
            if row.id in places:
                return places[row.id]
        return 0

    def _keep_in_bounds(self) -> None:
        last = max(len(self.rows) - 1, 0)
        self.cursor = min(max(self.cursor, 0), last)
        if not self.top <= self.cursor < self.top + self.height:
            # Line by line would send the whole screen at each key, 13 kB; like this at each twentieth.
            self.top = self.cursor - self.height // 2
        self.top = min(max(self.top, 0), max(len(self.rows) - self.height, 0))
