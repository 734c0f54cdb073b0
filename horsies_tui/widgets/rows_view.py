"""The base classes of list screens: the actions of a list's keys, and the filter bar above it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from textual import on

from horsies.query import FilterError
from horsies.query.values import Present
from horsies_tui.clipboard import copy
from horsies_tui.look.units import number, zone_of
from horsies_tui.view import ConsoleView, SnapshotT
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.menus import Item, PickSome
from horsies_tui.widgets.row_table import RowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from textual.widget import Widget

    from horsies.query.language import Filter
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.view import Console
    from horsies_tui.widgets.sheet import Sheet

ResultT = TypeVar("ResultT")

LIST_STEP: Final = 4
"""Number of lines by which a list grows at a time, because each new layout sends the whole screen again."""
_AHEAD: Final = timedelta(seconds=5)


class RowsView(ConsoleView[SnapshotT]):
    """A screen with a list. A subclass composes `_table`, shows snapshots in it, and makes intents of its rows."""

    _glyphs: Glyphs
    _table: RowTable[Any]

    @property
    def _lists(self) -> tuple[RowTable[Any], ...]:
        """Return all lists of the screen that can have marks."""
        return (self._table,)

    def take_focus(self) -> None:
        self._table.focus()

    def acted(self) -> None:
        """Clear the marks, so that another verb does not apply to these rows again."""
        self._clear_marks()
        self.refresh_now()

    def say_none_chosen(self, verb: str, what: str) -> None:
        """Report that the row under the cursor has disappeared. If one row remains, select it for the next key."""
        if len(self._table.rows) == 1:
            self._table.choose_one()
            self.console.say(f"{verb}: the {what} under the cursor has disappeared; the remaining one is now selected")
        else:
            super().say_none_chosen(verb, what)

    def action_copy(self) -> None:
        """Copy the id of the row under the cursor."""
        if self._table.cursor_id is not None:
            copy(self, self._table.cursor_id, self._table.cursor_id)

    def _clear_marks(self) -> None:
        for table in self._lists:
            table.action_clear_marks()

    def _note(self) -> None:
        """Show the number of marked rows in the footer."""
        marks = sum(len(table.marks) for table in self._lists)
        self.console.note(f"{self._glyphs.mark} {number(marks)} marked" if marks else "")

    def _open_menu(self, menu: Sheet[ResultT], take: Callable[[ResultT], None]) -> None:
        self.console.push_sheet(menu, lambda result: None if result is None else take(result))

    @on(RowTable.MarksChanged)
    def _count_marks(self, message: RowTable.MarksChanged) -> None:
        message.stop()
        self._note()


class FilteredView(RowsView[SnapshotT]):
    """A list below a filter bar. A subclass also composes `_filter_bar`, which parses its filter language."""

    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The sort orders that clicks on a column's title choose in turn, by column."""

    _filter_bar: FilterBar

    def on_mount(self) -> None:
        self._filter_bar.present = lambda: present_on(self.console)

    _sort: str

    @property
    def filter_text(self) -> str:
        """Return the applied filter."""
        return self._filter_bar.applied

    @property
    def filter_values(self) -> Mapping[str, Sequence[str]]:
        """Return filter values that this screen has shown, by key, for suggestions."""
        return self._filter_bar.values

    def _sort_by(self, sort: str) -> None:
        """Show the rows in this order. Subclasses with SORTS override this."""

    def _show_order(self) -> None:
        """Mark the title of the sorted column."""
        self._table.show_order(next((key for key, orders in self.SORTS.items() if self._sort in orders), ""))

    @on(RowTable.TitleClicked)
    def _sort_by_title(self, message: RowTable.TitleClicked) -> None:
        message.stop()
        if message.table is not self._table or not self.SORTS:
            return
        orders = self.SORTS.get(message.key)
        if orders is None:
            known = {column.key: column.title for column in self._table.columns.columns}
            ways = ", ".join(dict.fromkeys(known[key] for key in self.SORTS if key in known))
            self.console.say(f"cannot sort by {known[message.key] or 'this column'}; available: {ways}")
        else:
            at = orders.index(self._sort) + 1 if self._sort in orders else 0
            self._sort_by(orders[at % len(orders)])

    def _use(self, wanted: Any) -> None:
        """Show the rows of another filter. Subclasses extend this to request them.

        The marks are cleared, because verbs must not act on rows that are no longer visible.
        """
        self._clear_marks()
        self._table.expect_others()
        self._filter_bar.show(wanted.text)

    @property
    def _focused(self) -> Widget:
        """Return the widget that has the focus while no filter is edited."""
        return self._table

    def take_focus(self) -> None:
        if not self._filter_bar.editing:
            self._focused.focus()

    def filter_by(self, text: str) -> None:
        """Show the matching rows. An invalid filter is opened for editing at its error."""
        try:
            self._use(self._filter_bar.read(text))
        except FilterError:
            self._filter_bar.edit(text)
            self._filter_bar.action_apply()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the screen's keys while a filter is edited, because they are typed letters then."""
        return not (action == "filter" and self._filter_bar.editing)

    def action_filter(self) -> None:
        self._filter_bar.edit()

    def action_columns(self) -> None:
        """Open the menu that shows or hides the columns that fit into the list's width."""
        table, columns = self._table, self._table.columns
        offered = columns.keys_at(table.size.width)

        def choose(shown: frozenset[str]) -> None:
            table.columns = columns.without((columns.hidden - {*offered}) | ({*offered} - shown))

        titles = {column.key: column.title for column in columns.columns}
        on_now = [key for key in offered if key not in columns.hidden]
        self._open_menu(PickSome("Columns", [Item(key, titles[key]) for key in offered], on_now, self._glyphs), choose)

    @on(FilterBar.Closed)
    def _filter_closed(self, message: FilterBar.Closed) -> None:
        self.take_focus()
        if message.filter is not None:
            self._use(message.filter)

    def _leave_filter(self, current: Filter) -> bool:
        """Clear the filter on `esc`, once nothing else is open."""
        if current.terms:
            self._use(self._filter_bar.read(""))
        return bool(current.terms)


def present_on(console: Console) -> Present:
    """Return the current time, in the zone of times on the screen, for times in a typed filter."""
    return Present(console.link.clock.now(), zone_of(utc=console.utc))


def capped(now: datetime, read_at: datetime | None) -> datetime:
    """Return the time, limited to a little after the last read, so that a frozen screen shows nothing as overdue."""
    return now if read_at is None else min(now, read_at + _AHEAD)


def in_steps(lines: int) -> int:
    """Return the height of a list with this number of lines."""
    return -(-lines // LIST_STEP) * LIST_STEP


def set_height(widget: Widget, height: int | None) -> None:
    """Set the height (None: the stylesheet's) only if it differs, because a layout sends the whole screen again."""
    wanted = widget.styles.inline.height
    if (None if wanted is None else wanted.value) != height:
        widget.styles.height = height
