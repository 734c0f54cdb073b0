"""A table whose numbers can be opened. While it has the focus, the cursor selects a row and one of its cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from textual.message import Message

from horsies_tui.actions import bindings_of
from horsies_tui.look.cells import Cell, HasId, Look
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.viewport import Viewport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

    from horsies_tui.look.cells import ColumnSet, PlacedColumn
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line
    from horsies_tui.look.tones import Tone

ItemT = TypeVar("ItemT", bound=HasId)

CHOSEN: Final = "number-table--chosen"


class NumberTable(RowTable[ItemT], inherit_bindings=False):
    """A table with selectable cells. `numbers` are the keys of their columns; if empty, only rows can be selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(*(f"table.{name}" for name in ("open", "up", "down", "page_up", "page_down", "first", "last")))
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {CHOSEN}
    DEFAULT_CSS = f"""
    NumberTable > .{CHOSEN} {{ text-style: bold reverse; }}
    NumberTable:ansi > .{CHOSEN} {{ text-style: bold underline; }}
    """

    @dataclass
    class NumberOpened(Message):
        """A number was opened; `column` is empty if the table has no selectable columns."""

        table: NumberTable[Any]
        row_id: str
        column: str

        @property
        def control(self) -> NumberTable[Any]:
            return self.table

    def __init__(
        self,
        columns: ColumnSet[ItemT],
        numbers: Sequence[str] = (),
        *,
        glyphs: Glyphs,
        id: str | None = None,  # noqa: A002 - textual's name
    ) -> None:
        super().__init__(columns, glyphs=glyphs, beside=True, id=id)
        self._view = Viewport(lets_go=False)
        self._numbers = tuple(numbers)
        self._number = numbers[0] if numbers else ""

    @property
    def selected(self) -> str:
        """Return the key of the selected column, or of the first shown one if the selected column is hidden."""
        shown = self._shown()
        return self._number if self._number in shown or not shown else shown[0]

    def move(self, step: int) -> None:
        """Select the next number to the right (negative: to the left)."""
        shown = self._shown()
        if shown:
            at = shown.index(self.selected)
            self._number = shown[min(max(at + step, 0), len(shown) - 1)]
            self._redraw()

    def action_open(self) -> None:
        if self.cursor_id is not None:
            self.post_message(self.NumberOpened(self, self.cursor_id, self.selected))

    def on_click(self, event: events.Click) -> None:
        for placed in self.placed:
            if placed.column.key in self._numbers and placed.x <= event.x <= placed.x + placed.width:
                self._number = placed.column.key
        super().on_click(event)

    def _shown(self) -> list[str]:
        keys = [placed.column.key for placed in self.placed]
        return [key for key in keys if key in self._numbers]

    def _row_line(self, row: ItemT, columns: Sequence[PlacedColumn[ItemT]], look: Look, width: int) -> Line:
        if self._is_here(row):
            columns = [_marked(placed) if placed.column.key == self.selected else placed for placed in columns]
        return super()._row_line(row, columns, look, width)


def _marked(placed: PlacedColumn[ItemT]) -> PlacedColumn[ItemT]:
    """Return the column with its cells in the style of the selection."""

    def cell(row: ItemT, look: Look) -> Cell:
        # A component class, like the tones, but the type lists only tones.
        return replace(placed.column.drawn(row, look), tone=cast("Tone", CHOSEN))

    return replace(placed, column=replace(placed.column, cell=cell))
