"""The list of tasks that a worker holds, beside the worker list; it shows a cursor only while it has the focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.views import TaskRow
from horsies_tui.look.lines import row_line
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workers.columns import HELD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from horsies_tui.look.cells import Look, Placed
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Line


class HeldTable(RowTable[TaskRow]):
    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(HELD_COLUMNS, glyphs=glyphs, id=id)

    def on_focus(self, event: events.Focus) -> None:
        super().on_focus(event)
        self._redraw()

    def on_blur(self, event: events.Blur) -> None:
        super().on_blur(event)
        self._redraw()

    def _row_line(self, row: TaskRow, columns: Sequence[Placed[TaskRow]], look: Look, width: int) -> Line:
        cursor = self.has_focus and row.id == self.cursor_id
        return row_line(row, columns, look, width, cursor=cursor, marked=row.id in self.marks, struck=False)
