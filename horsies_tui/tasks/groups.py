"""The list of groups of tasks, largest first, with number, share and age. Enter filters the tasks by a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies_tui.look.cells import Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, number
from horsies_tui.widgets.row_table import RowTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from horsies.views import GroupBy, TaskGroups
    from horsies_tui.look.glyphs import Glyphs

GROUP_WORDS: Final[Mapping[GroupBy, str]] = {
    "error_code": "error code",
    "task_name": "task name",
    "queue_name": "queue",
    "worker": "worker",
}
_WITHOUT: Final[Mapping[GroupBy, str]] = {
    "error_code": "without an error code",
    "task_name": "without a name",
    "queue_name": "without a queue",
    "worker": "not claimed by a worker yet",
}
_BAR: Final = 10


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of tasks. `share` is its part of all counted tasks, from 0 to 1."""

    key: str | None
    words: str
    number: int
    share: float
    oldest: datetime
    newest: datetime

    @property
    def id(self) -> str:
        return "" if self.key is None else f"={self.key}"


class GroupList(RowTable[GroupRow]):
    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(_columns("error_code"), glyphs=glyphs, id=id)
        self._by: GroupBy = "error_code"

    def show_groups(self, groups: TaskGroups | None, by: GroupBy, *, now: datetime, empty: str) -> None:
        """Show the groups; None if they have not been counted."""
        if by != self._by:
            self._by = by
            self.columns = _columns(by)
            self.marks = frozenset()
        self.show(_rows(groups, by) if groups is not None else (), now=now, empty=empty)


def _rows(groups: TaskGroups, by: GroupBy) -> tuple[GroupRow, ...]:
    total = sum(group.number for group in groups.groups)
    return tuple(
        GroupRow(
            group.key,
            f"({_WITHOUT[by]})" if group.key is None else group.key,
            group.number,
            group.number / total,
            group.oldest,
            group.newest,
        )
        for group in groups.groups
    )


def _bar(row: GroupRow, look: Look) -> Cell:
    """Return the bar of a group, which is at least one column long."""
    return Cell(look.glyphs.running * max(round(row.share * _BAR), 1), Tone.RUNNING)


def _columns(by: GroupBy) -> ColumnSet[GroupRow]:
    return ColumnSet(
        (
            Column("number", "TASKS", lambda row, _: Cell(number(row.number), Tone.STRONG), 9, right=True),
            Column("percent", "SHARE", lambda row, _: Cell(f"{row.share:.0%}"), 5, right=True),
            Column("bar", "", _bar, _BAR),
            Column("newest", "NEWEST", lambda row, look: Cell(age(look.now - row.newest)), 6, right=True),
            Column("oldest", "OLDEST", lambda row, look: Cell(age(look.now - row.oldest)), 6, right=True),
            Column("key", GROUP_WORDS[by].upper(), _key, 12, grow=1),
        )
    )


def _key(row: GroupRow, look: Look) -> Cell:
    return Cell(f" {row.words}", Tone.MUTED if row.key is None else None)
