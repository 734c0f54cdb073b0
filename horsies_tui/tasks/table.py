"""The table of the task list; `g` and `G` go to the ends of the database's order, not only of the loaded rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from horsies.views import TaskRow
from horsies_tui.widgets.row_table import Edge, RowTable
from horsies_tui.widgets.task_columns import TASK_COLUMNS

if TYPE_CHECKING:
    from horsies_tui.look.glyphs import Glyphs


class TaskTable(RowTable[TaskRow]):
    @dataclass
    class EndWanted(Message):
        """`g` or `G`: the cursor went to the first or last loaded row, and there may be more rows beyond."""

        table: TaskTable
        which: Edge

        @property
        def control(self) -> TaskTable:
            return self.table

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(TASK_COLUMNS, glyphs=glyphs, id=id)

    def action_first(self) -> None:
        super().action_first()
        self.post_message(self.EndWanted(self, "start"))

    def action_last(self) -> None:
        super().action_last()
        self.post_message(self.EndWanted(self, "end"))
