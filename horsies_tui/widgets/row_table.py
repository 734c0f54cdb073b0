"""The base of all lists. Rows keep their lines, cursor and marks follow ids, and only changes are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeAlias

from textual.message import Message

from horsies.domain.damage import damaged_fields
from horsies_tui.actions import Scope, bindings
from horsies_tui.look.bars import WHOLE, Extent, more_below, position, scrollbar
from horsies_tui.look.cells import DAMAGED, Look, RowT
from horsies_tui.look.glyphs import UNICODE, Glyphs
from horsies_tui.look.lines import (
    CURSOR,
    SORTED,
    STRUCK,
    TITLE,
    Line,
    Piece,
    RowState,
    blank_line,
    cells_line,
    title_line,
    words_line,
)
from horsies_tui.look.tones import TONES, Tone, tone_css
from horsies_tui.widgets.line_view import LineView
from horsies_tui.widgets.viewport import Viewport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from textual import events
    from textual.binding import BindingType

    from horsies.config.recovery import RecoveryConfig
    from horsies.views import Usual
    from horsies_tui.look.cells import Cell, ColumnSet, PlacedColumn

TRACK: Final = "row-table--track"
Edge: TypeAlias = Literal["start", "end"]

_WHEEL_ROWS: Final = 3
_ROWS_DRAWN: Final = 256
_EDGE_SCREENS: Final = 1.5
"""Distance from the edge of the loaded rows, in screens, at which more are requested, so that a page down is loaded."""


class RowTable(LineView, Generic[RowT], can_focus=True):
    """Rows below column titles. The table has all loaded rows, a few hundred, and draws those in view."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TABLE)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {TITLE, SORTED, CURSOR, STRUCK, TRACK, *TONES}
    DEFAULT_CSS = f"""
    RowTable {{ height: 1fr; }}
    RowTable > .{TITLE} {{ color: $text-muted; }}
    RowTable > .{SORTED} {{ color: $text; text-style: bold; }}
    RowTable > .{TRACK} {{ color: $border; }}
    RowTable > .{STRUCK} {{ color: $text-muted; text-style: strike; }}
    RowTable > .{CURSOR} {{ background: $block-cursor-background; }}
    RowTable:ansi > .{TITLE} {{ text-style: dim; }}
    RowTable:ansi > .{CURSOR} {{ color: ansi_default; background: ansi_default; text-style: reverse; }}
    {tone_css("RowTable")}
    """

    @dataclass
    class CursorMoved(Message):
        """The cursor is on another row, or its row has moved. `by_hand` is true if the operator moved the cursor."""

        table: RowTable[Any]
        row_id: str | None
        index: int
        at_top: bool
        by_hand: bool

        @property
        def control(self) -> RowTable[Any]:
            return self.table

    @dataclass
    class Opened(Message):
        """A row was opened by enter or a double click."""

        table: RowTable[Any]
        row_id: str

        @property
        def control(self) -> RowTable[Any]:
            return self.table

    @dataclass
    class TitleClicked(Message):
        """The title of a column was clicked."""

        table: RowTable[Any]
        key: str

    @dataclass
    class MarksChanged(Message):
        """The marks have changed. Rows that leave the window keep their marks."""

        table: RowTable[Any]
        marks: frozenset[str]

        @property
        def control(self) -> RowTable[Any]:
            return self.table

    @dataclass
    class NearEdge(Message):
        """The view is near the edge of the loaded rows in this direction, and more should be loaded."""

        table: RowTable[Any]
        which: Edge

        @property
        def control(self) -> RowTable[Any]:
            return self.table

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, RowTable.NearEdge) and (message.table, message.which) == (self.table, self.which)

    @dataclass
    class EndWanted(Message):
        """The operator went to the first or last loaded row (`g`, `G`); there may be more rows to load."""

        table: RowTable[Any]
        which: Edge

        @property
        def control(self) -> RowTable[Any]:
            return self.table

    def __init__(
        self,
        columns: ColumnSet[RowT],
        *,
        glyphs: Glyphs = UNICODE,
        beside: bool = False,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        """Create a table. One that is `beside` another list shows its cursor only while it has the focus."""
        super().__init__(id=id)
        self._beside = beside
        self._columns = columns
        self._glyphs = glyphs
        self._look: Look | None = None
        self._view: Viewport[RowT] = Viewport()
        self._marks: frozenset[str] = frozenset()
        self._last_marked: str | None = None
        self._struck: frozenset[str] = frozenset()
        self._empty = ""
        self._extent = WHOLE
        self._edge_posted: dict[Edge, str] = {}
        self._needs: dict[str, int] = {}
        """Width of the longest text in each column since the filter or the table's width changed. A column does not
        shrink for narrower rows, so that the columns do not move all the time."""
        self._placed_of: tuple[ColumnSet[RowT], int, dict[str, int]] | None = None
        self._placed: tuple[PlacedColumn[RowT], ...] = ()
        self._drawn: dict[str, tuple[int, RowState, list[Cell], Line, RowT]] = {}
        """The rows as they were drawn last, by id. Of 34 rows in view few change from one tick to the next."""
        self._fresh = self._measure_anew = False
        self._sorted_by = ""

    @property
    def cursor_id(self) -> str | None:
        return self._view.cursor_id

    @property
    def cursor_row(self) -> RowT | None:
        return self._view.cursor_row

    @property
    def cursor_index(self) -> int:
        return self._view.cursor

    @property
    def rows(self) -> tuple[RowT, ...]:
        return self._view.rows

    @property
    def chosen(self) -> tuple[RowT, ...]:
        """Return the marked rows that are loaded; without marks, the row under the cursor."""
        chosen = self._marks or {self.cursor_id}
        return tuple(row for row in self.rows if row.id in chosen)

    @property
    def chosen_ids(self) -> tuple[str, ...]:
        """Return the ids of all marked rows, loaded or not, in a fixed order; without marks, of the cursor's row."""
        return tuple(sorted(self._marks)) or (() if self.cursor_id is None else (self.cursor_id,))

    @property
    def marks(self) -> frozenset[str]:
        return self._marks

    @marks.setter
    def marks(self, marks: frozenset[str]) -> None:
        if marks != self._marks:
            self._marks = marks
            self._redraw()
            self.post_message(self.MarksChanged(self, marks))
            self.refresh_bindings()

    @property
    def columns(self) -> ColumnSet[RowT]:
        return self._columns

    @columns.setter
    def columns(self, columns: ColumnSet[RowT]) -> None:
        self._columns = columns
        self._redraw()

    def show_order(self, key: str) -> None:
        """Show the title of this column in bold, because the rows are sorted by it; empty for no column."""
        self._sorted_by = key
        self._redraw()

    @property
    def placed(self) -> tuple[PlacedColumn[RowT], ...]:
        """Return the columns as they are drawn."""
        of = self._columns, self._rows_width, self._needs
        if of != self._placed_of:
            self._placed_of, self._placed = of, self._columns.place(self._rows_width, self._needs)
            self._drawn.clear()
        return self._placed

    @property
    def _rows_width(self) -> int:
        """Return the width of the rows, which leaves a column to the scrollbar if not all rows are in view."""
        return self.size.width - (self._view.height < self._extent.whole(len(self._view.rows)))

    def expect_others(self) -> None:
        """Forget the column widths, because other rows were requested."""
        self._measure_anew = True

    def show(
        self,
        rows: tuple[RowT, ...],
        *,
        now: datetime,
        struck: frozenset[str] = frozenset(),
        stick: bool = False,
        empty: str = "",
        recovery: RecoveryConfig | None = None,
        usual: Mapping[str, Usual] | None = None,
        extent: Extent = WHOLE,
    ) -> None:
        """Show other rows, or the same rows at a later time. The cursor stays on its row and its line.

        With `stick` the list stays at its top. If the cursor's row disappears, no row is selected until the operator
        moves. `empty` is shown if there are no rows.
        """
        self._look = Look(now, self._glyphs, recovery, usual or {})
        self._struck = struck
        self._empty = empty
        self._extent = extent
        before = self._view.cursor_id, self._view.cursor
        self._measure(rows, self._look)
        self._fresh = True
        self._view.take(rows, stick=stick)
        self._redraw()
        if (self._view.cursor_id, self._view.cursor) != before:
            self._post_cursor(by_hand=False)
        self._post_edges(by_hand=False)

    def tick(self, now: datetime, *, often: bool = False) -> None:
        """Update the ages. When called `often`, rows that were shown since the last call are left to the next one."""
        fresh, self._fresh = self._fresh, False
        if self._look is not None and not (fresh and often):
            self._look = replace(self._look, now=now)
            self._redraw()

    def move_to(self, index: int) -> None:
        """Move the cursor to this row, or to the nearest one, as if the operator had moved it."""
        self._view.move_to(index)
        self._moved_by_hand()

    def choose_one(self) -> None:
        """Move the cursor to the first row if it is on none, because the operator moved the focus to this list."""
        if self._view.cursor_id is None:
            self.move_to(0)

    def neighbour(self, step: int) -> str | None:
        """Move the cursor by `step` rows (negative: up) and return the id there; None if there is no such row."""
        index = self._view.cursor + step
        if not 0 <= index < len(self._view.rows):
            return None
        self.move_to(index)
        return self.cursor_id

    def action_up(self) -> None:
        self._view.step(-1)
        self._moved_by_hand()

    def action_down(self) -> None:
        self._view.step(1)
        self._moved_by_hand()

    def action_first(self) -> None:
        self.move_to(0)
        self.post_message(self.EndWanted(self, "start"))

    def action_last(self) -> None:
        self.move_to(len(self._view.rows) - 1)
        self.post_message(self.EndWanted(self, "end"))

    def action_page_up(self) -> None:
        self._view.page(-1)
        self._moved_by_hand()

    def action_page_down(self) -> None:
        self._view.page(1)
        self._moved_by_hand()

    def action_open(self) -> None:
        row_id = self._view.cursor_id
        if row_id is not None:
            self.post_message(self.Opened(self, row_id))

    def action_mark(self) -> None:
        """Mark the row under the cursor, or remove its mark."""
        row_id = self._view.cursor_id
        if row_id is not None:
            self._last_marked = row_id
            self.marks ^= {row_id}

    def action_mark_range(self) -> None:
        """Mark all rows from the last marked one to the cursor; without a mark, the cursor's row."""
        if self._view.cursor_id is None:
            return
        last = None if self._last_marked is None else self._view.index_of(self._last_marked)
        start, end = sorted((self._view.cursor if last is None else last, self._view.cursor))
        self._last_marked = self._view.cursor_id
        self.marks |= {row.id for row in self._view.rows[start : end + 1]}

    def action_mark_shown(self) -> None:
        self.marks |= {row.id for row in self._view.rows}

    def action_clear_marks(self) -> None:
        self._last_marked = None
        self.marks = frozenset()

    def on_resize(self, event: events.Resize) -> None:
        self._view.resize(event.size.height - 1)
        if self._look is not None:
            self._needs = self._columns.measure(self._view.rows, self._look)
        self._redraw()
        self._post_edges(by_hand=False)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_to(self._view.cursor + _WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_to(self._view.cursor - _WHEEL_ROWS)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        line = event.y - 1
        if line < 0 and (column := next((each for each in reversed(self.placed) if each.x <= event.x), None)):
            self.post_message(self.TitleClicked(self, column.column.key))
        if 0 <= line < len(self._view.in_view):
            self.move_to(self._view.top + line)
            if event.chain == 2:
                self.action_open()

    def _moved_by_hand(self) -> None:
        self._redraw()
        self._post_cursor(by_hand=True)
        self._post_edges(by_hand=True)

    def _post_cursor(self, *, by_hand: bool) -> None:
        index = self._view.cursor
        self.post_message(self.CursorMoved(self, self._view.cursor_id, index, index == 0, by_hand))
        self.refresh_bindings()  # the available keys depend on the row

    def _post_edges(self, *, by_hand: bool) -> None:
        """Post NearEdge: once per edge when rows arrive, and at every move, because the last read may have failed."""
        rows, near = self._view.rows, _EDGE_SCREENS * self._view.height
        left: tuple[tuple[Edge, int, int], ...] = (("start", self._view.above, 0), ("end", self._view.below, -1))
        for which, rows_left, at in left:
            if rows and rows_left < near and (by_hand or self._edge_posted.get(which) != rows[at].id):
                self._edge_posted[which] = rows[at].id
                self.post_message(self.NearEdge(self, which))

    def _measure(self, rows: tuple[RowT, ...], look: Look) -> None:
        known = {id(row) for row in self._view.rows}  # an unchanged row is the same object
        new = [row for row in rows if id(row) not in known]
        if self._measure_anew and (new or len(rows) != len(self._view.rows)):
            self._measure_anew, self._needs, new = False, {}, [*rows]
        if new:
            needs = self._columns.measure(new, look)
            self._needs = {key: max(width, self._needs.get(key, 0)) for key, width in needs.items()}

    def _focus_changed(self) -> None:
        if self._beside:
            self._redraw()

    def _redraw(self) -> None:
        self.draw_lines(self._compose_lines)

    def _compose_lines(self) -> list[Line]:
        width, height = self.size
        if not width or not height:
            return []
        columns, inner = self.placed, self._rows_width
        lines = [self._title(columns, width)]
        if self._look is not None:
            lines += [self._row_line(row, columns, self._look, inner) for row in self._view.in_view]
            if inner < width:
                lines[1:] = self._with_scrollbar(lines[1:], height - 1)
        if not self._view.rows:
            lines += [words_line(words, self._glyphs, width) for words in self._empty.splitlines()]
        return lines[:height] + [blank_line(width)] * (height - len(lines))

    def _title(self, columns: Sequence[PlacedColumn[RowT]], width: int) -> Line:
        """Return the line of the titles, which ends with the position in the list if there is room."""
        view = self._view
        if self._beside and not self.has_focus:
            words = more_below(view.below, self._glyphs)
        else:
            index = view.cursor if view.cursor_id is not None else None
            words = position(index, len(view.rows), self._extent, self._glyphs) if view.rows else ""
        return title_line(columns, self._glyphs, width, words, sorted_by=self._sorted_by)

    def _with_scrollbar(self, lines: list[Line], height: int) -> list[Line]:
        view = self._view
        thumb = scrollbar(view.top, view.height, len(view.rows), self._extent, height) or range(0)
        signs = ("#", "|") if self._glyphs.ascii else ("┃", "│")
        ends = (Piece(signs[0], 1, (Tone.MUTED,)), Piece(signs[1], 1, (TRACK,)))
        return [(*line, ends[y not in thumb]) for y, line in enumerate(lines)]

    def _row_line(self, row: RowT, columns: Sequence[PlacedColumn[RowT]], look: Look, width: int) -> Line:
        marked, struck = row.id in self._marks, row.id in self._struck
        recedes = self._columns.recedes is not None and self._columns.recedes(row)
        cells = self._columns.cells(row, columns, look)
        drawn = self._drawn.get(row.id)
        if drawn is not None and drawn[4] is not row:
            drawn = None
        damaged = DAMAGED in cells or (bool(damaged_fields(row)) if drawn is None else drawn[1].damaged)
        state = RowState(self._is_here(row), marked, struck, recedes, damaged)
        if drawn is None or drawn[:3] != (width, state, cells):
            if len(self._drawn) >= _ROWS_DRAWN:
                self._drawn.clear()
            line = cells_line(cells, columns, look.glyphs, width, state)
            drawn = self._drawn[row.id] = width, state, cells, line, row
        return drawn[3]

    def _is_here(self, row: RowT) -> bool:
        """Return whether the cursor is shown on this row."""
        return row.id == self._view.cursor_id and (self.has_focus or not self._beside)
