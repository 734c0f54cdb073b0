"""The task list in groups, or as statistics by task name: the keys that select them, and opening a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import on

from horsies_tui.health.windows import USUAL, neighbour
from horsies_tui.tasks import menus
from horsies_tui.tasks.filter_edits import NoSuchFilter, of_groups
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import FilteredView

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies_tui.tasks.groups import GroupList
    from horsies_tui.tasks.statistics import StatisticsList

NEXT: Final = "tasks.next_group"
OF_GROUPS: Final = frozenset({NEXT, "tasks.shorter", "tasks.longer"})
"""Actions that are unavailable while the list shows single rows."""


class GroupedTasks(FilteredView[TaskSnapshot]):
    """The base of the task list for groups. The subclass has the widgets and the feed."""

    _need: TaskNeed
    _snapshot: TaskSnapshot
    _groups: GroupList
    _statistics: StatisticsList

    _ask: Callable[..., None]

    def action_group(self) -> None:
        self._open_menu(menus.group_menu(self._need, self._glyphs), self._group)

    def action_next_group(self) -> None:
        if not self._need.in_rows:
            self._group(menus.next_grouping(self._need))

    def action_shorter(self) -> None:
        self._change_window(-1)

    def action_longer(self) -> None:
        self._change_window(1)

    def _change_window(self, step: int) -> None:
        if self._need.statistics is not None:
            self._ask(statistics=neighbour(self._need.statistics, step))

    @on(RowTable.Opened, "#groups")
    def _open_group(self) -> None:
        group, by = self._groups.cursor_row, self._need.group_by
        if group is None or by is None:
            return
        try:
            narrowed = of_groups(self._need.filter, by, [group.key])
        except NoSuchFilter as error:
            self.console.say_error(error.message)
            return
        self._use(narrowed)
        self._group(menus.NO_GROUPS)

    @on(RowTable.Opened, "#statistics")
    def _open_name(self, message: RowTable.Opened) -> None:
        found = self._snapshot.statistics
        if found is not None:
            self._use(found.filter_of(self._need.filter, [message.row_id]))
            self._group(menus.NO_GROUPS)

    @on(RowTable.CursorMoved, "#statistics")
    def _keep_places(self, message: RowTable.CursorMoved) -> None:
        if message.by_hand:
            self._statistics.touch(self.console.link.clock.monotonic())

    def _group(self, by: str) -> None:
        """Group by this item of the menu."""
        statistics = USUAL if by == menus.STATISTICS else None
        self._ask(group_by=None if by in (menus.STATISTICS, menus.NO_GROUPS) else by, statistics=statistics)
        self._note()
