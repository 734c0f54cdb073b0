"""What of the task list is chosen for a verb: whole groups, all that matches, the marked rows, or the cursor's."""

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
    """`groups` are the keys of the marked groups, else of the one under the cursor; likewise `ids`."""

    need: TaskNeed
    all_that_match: bool
    groups: tuple[str | None, ...]
    ids: tuple[str, ...]
    marked: int

    def selection(self) -> Selection | None:
        """None: nothing is chosen. NoSuchFilter where it cannot be said as a filter."""
        if self.need.group_by is not None:
            if not self.groups:
                return None
            return Selection.of_filter(of_groups(self.need.filter, self.need.group_by, self.groups).text)
        if self.all_that_match:
            return Selection.of_filter(all_shown(self.need.filter, self.need.sort).text)
        return Selection.of_ids(self.ids) if self.ids else None

    @property
    def words(self) -> str:
        """Of what is more than the row under the cursor."""
        if self.marked:
            return f"{number(self.marked)} marked"
        return "all that match" if self.all_that_match and self.need.group_by is None else ""
