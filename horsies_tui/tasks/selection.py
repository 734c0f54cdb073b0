"""The targets of a verb in the task list: groups, all matching tasks, marked rows, or the row under the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.operations.selection import Selection
from horsies_tui.look.units import number
from horsies_tui.tasks.filter_edits import all_shown, of_groups

if TYPE_CHECKING:
    from horsies_tui.tasks.snapshot import TaskNeed


@dataclass(frozen=True, slots=True)
class Choice:
    """`groups` are the keys of the marked groups, or of the one under the cursor; `ids` likewise."""

    need: TaskNeed
    all_that_match: bool
    groups: tuple[str | None, ...]
    ids: tuple[str, ...]
    marked: int

    def selection(self) -> Selection | None:
        """None: nothing is chosen. Raises NoSuchFilter if the choice cannot be expressed as a filter."""
        if self.need.group_by is not None:
            if not self.groups:
                return None
            return Selection.of_filter(of_groups(self.need.filter, self.need.group_by, self.groups).text)
        if self.all_that_match:
            return Selection.of_filter(all_shown(self.need.filter, self.need.sort).text)
        return Selection.of_ids(self.ids) if self.ids else None

    @property
    def words(self) -> str:
        """A choice other than the row under the cursor, as text; empty if there is none."""
        if self.marked:
            return f"{number(self.marked)} marked"
        return "all that match" if self.all_that_match and self.need.group_by is None else ""
