"""The columns of the task list, including the arguments, which are read and masked for this list only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from horsies_tui.look.cells import EMPTY, Cell, Column
from horsies_tui.look.tones import Tone
from horsies_tui.widgets.task_columns import TASK_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.views import BriefArguments, TaskRow
    from horsies_tui.look.cells import ColumnSet, Look

ARGUMENTS: Final = "arguments"


class ArgumentTexts:
    """The arguments of a list's rows as text. Each is decoded once."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden
        self._stored: Mapping[str, BriefArguments] = {}
        self._texts: dict[str, str] = {}

    def use(self, stored: Mapping[str, BriefArguments]) -> None:
        """Show the arguments that were read for the rows in the window."""
        if stored is not self._stored:
            self._stored = stored
            self._texts = {row_id: text for row_id, text in self._texts.items() if row_id in stored}

    def columns(self) -> ColumnSet[TaskRow]:
        # Fixed width, because arguments arrive after their rows and would move the neighbouring columns.
        arguments: Column[TaskRow] = Column(ARGUMENTS, "ARGUMENTS", self._cell, 18, 30, whole=60, priority=5)
        at = next(at for at, column in enumerate(TASK_COLUMNS.columns) if column.key == "error")
        columns = (*TASK_COLUMNS.columns[:at], arguments, *TASK_COLUMNS.columns[at:])
        return replace(TASK_COLUMNS, columns=columns)

    def _cell(self, row: TaskRow, _look: Look) -> Cell:
        stored = self._stored.get(row.id)
        if stored is None:
            return EMPTY
        if row.id not in self._texts:
            self._texts[row.id] = _line(stored, self._hidden)
        return Cell(self._texts[row.id], Tone.MUTED)


def _line(stored: BriefArguments, hidden: frozenset[str]) -> str:
    from horsies.display.payload import Masks
    from horsies_tui.story.payload import arguments_line

    return arguments_line(stored.args, stored.kwargs, Masks(hidden))
