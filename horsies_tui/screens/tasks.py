"""The task list: live rows under a filter, in an order, or counted in groups; what the cursor and the marks choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from textual import on
from textual.message import Message

from horsies.query import FilterError, TaskFilter, parse
from horsies.views import Sort
from horsies_tui.actions import Scope, bindings
from horsies_tui.feed import TaskFeed, TaskNeed, TaskSnapshot
from horsies_tui.feed.values import KnownValues
from horsies_tui.feed.window import ASCENDING
from horsies_tui.look.clock import zone_of
from horsies_tui.look.glyphs import glyphs
from horsies_tui.narrowing import NoSuchFilter, all_shown, of_groups, of_states
from horsies_tui.screens.task_choice import Choice
from horsies_tui.screens.task_menus import NO_GROUPS, column_menu, group_menu, sort_menu, state_menu, time_prompt
from horsies_tui.screens.task_words import empty_words, no_groups_words, tally, toggled
from horsies_tui.view import ConsoleView
from horsies_tui.widgets.columns import TASK_COLUMNS
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.group_list import GroupList
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.task_table import TaskTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.operations.selection import Selection
    from horsies.views import GroupBy
    from horsies_tui.feed import Link, LinkStatus
    from horsies_tui.widgets.row_table import Edge
    from horsies_tui.widgets.sheet import Sheet
    from horsies_tui.wishes import Wish

ResultT = TypeVar("ResultT")

_TICK_S: Final = 1.0


class TasksView(ConsoleView[TaskSnapshot]):
    """Follows while the cursor is on the first row; a step away from it, and nothing moves by itself any more."""

    TITLE = "Tasks"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TASKS, Scope.VERBS)]
    DEFAULT_CSS = """
    TasksView {
        & > GroupList { display: none; }
        &.-grouped > GroupList { display: block; }
        &.-grouped > TaskTable { display: none; }
    }
    """

    @dataclass
    class ValuesRead(Message, bubble=False):
        """What may stand in a filter."""

        values: Mapping[str, Sequence[str]]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._need = TaskNeed()
        self._snapshot = TaskSnapshot()
        self._values: KnownValues | None = None
        self._status_ends: Callable[[], None] | None = None
        self._land: Edge | None = None
        """Where the cursor goes when what was asked for is there."""
        self._all_that_match = False
        self._error: str | None = None

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(id="filter")
        self._filter_bar.named = self.console.options.config.filters
        self._counts = CountsLine(self._glyphs, id="counts")
        self._table = TaskTable(self._glyphs, id="rows")
        self._groups = GroupList(self._glyphs, id="groups")
        yield from (self._filter_bar, self._counts, self._table, self._groups)

    def on_mount(self) -> None:
        self.set_interval(_TICK_S, self._tick)
        if self.console.options.filter:
            self.filter_by(self.console.options.filter)

    def on_unmount(self) -> None:
        self._let_go()

    # The base class asks.

    def create_feed(self, link: Link, publish: Callable[[TaskSnapshot], None]) -> TaskFeed:
        self._let_go()
        self._values = KnownValues(link, lambda values: cast("None", self.post_message(self.ValuesRead(values))))
        self._status_ends = link.on_status(self._show_status)
        feed = TaskFeed(link, publish)
        feed.ask(self._need)
        return feed

    def draw(self, snapshot: TaskSnapshot) -> None:
        self._snapshot = snapshot
        self._show_all()
        # Until what was asked for is there, rows are those of before: the cursor waits too.
        asked = (self._need.filter.text, self._need.sort)
        if self._land is not None and not snapshot.loading and (snapshot.filter_text, snapshot.sort) == asked:
            self._table.move_to(0 if self._land == "start" else len(snapshot.rows) - 1)
            self._land = None
        if snapshot.error not in (None, self._error):
            self.console.say_error(snapshot.error or "")
        self._error = snapshot.error

    def selection(self) -> Selection | None:
        """NoSuchFilter where what is chosen cannot be said as a filter."""
        return self._choice.selection()

    def wish(self, verb: str) -> Wish | None:
        try:
            return super().wish(verb)
        except NoSuchFilter as error:
            self.console.say_error(error.message)
            return None

    def busy(self, busy: bool) -> None:
        self._task_feed.busy(busy or bool(self._table.marks))

    def leave(self) -> bool:
        """`esc`, one step at a time: the choice, the groups, the filter."""
        if self._all_that_match or self._table.marks:
            self._all_that_match = False
            self._table.action_clear_marks()
            self._note()
        elif self._need.group_by is not None:
            self._ask(group_by=None)
        elif self._need.filter.terms:
            self._use(TaskFilter())
        else:
            return False
        return True

    def acted(self) -> None:
        """What was chosen has had its use: another verb would mean it again."""
        self._all_that_match = False
        self._table.action_clear_marks()
        self._groups.action_clear_marks()
        self._note()
        self.refresh_now()

    def neighbour(self, step: int) -> str | None:
        index = self._table.cursor_index + step
        if not 0 <= index < len(self._table.rows):
            return None
        self._table.move_to(index)
        return self._table.cursor_id

    def take_focus(self) -> None:
        (self._table if self._need.group_by is None else self._groups).focus()

    def show(self) -> None:
        super().show()
        self._note()

    def refresh_now(self) -> None:
        self._task_feed.refresh()

    def filter_by(self, text: str) -> None:
        """Show what matches; a text that is no filter is opened where it is wrong."""
        try:
            self._use(parse(text))
        except FilterError:
            self._filter_bar.edit(text)
            self._filter_bar.action_apply()

    # Keys.

    def action_filter(self) -> None:
        self._filter_bar.edit()

    def action_follow(self) -> None:
        if self._need.follow:
            self._ask(follow=False)
        else:
            self._go_to_end("start")

    def action_hold(self) -> None:
        link = self.console.link
        self._task_feed.hold(not link.held)
        self._show_all()

    def action_sort(self) -> None:
        self._open_menu(sort_menu(self._need.sort, self._glyphs), lambda sort: self._ask(sort=Sort(sort)))

    def action_group(self) -> None:
        def group(by: str) -> None:
            self._ask(group_by=None if by == NO_GROUPS else cast("GroupBy", by))

        self._open_menu(group_menu(self._need.group_by, self._glyphs), group)

    def action_states(self) -> None:
        menu = state_menu(self._need.filter, self._snapshot, self._glyphs)
        self._open_menu(menu, lambda states: self._use(of_states(self._need.filter, states)))

    def action_columns(self) -> None:
        width, hidden = self._table.size.width, self._table.columns.hidden

        def choose(shown: frozenset[str]) -> None:
            offered = frozenset(TASK_COLUMNS.keys_at(width))
            self._table.columns = TASK_COLUMNS.without((hidden - offered) | (offered - shown))

        self._open_menu(column_menu(width, hidden, self._glyphs), choose)

    def action_jump(self) -> None:
        if self._need.sort is Sort.WAITING:
            self.console.say_error("these stand in the order of their priorities, not of time; s chooses another order")
            return

        def jump(moment: datetime) -> None:
            self._ask(follow=False)
            self._land = "start"
            self._task_feed.jump(moment)

        zone = zone_of(utc=self.console.utc)
        self._open_menu(time_prompt(self.console.link.clock.now(), zone, self._glyphs), jump)

    def action_mark_matching(self) -> None:
        if not self._all_that_match:
            try:
                all_shown(self._need.filter, self._need.sort)
            except NoSuchFilter as error:
                self.console.say_error(error.message)
                return
        self._table.action_clear_marks()
        self._all_that_match = not self._all_that_match
        self._note()
        if self._all_that_match:
            self.console.say(f"chosen: all that match {self._need.filter}, shown or not; esc lets them go")

    def action_copy(self) -> None:
        row_id = self._table.cursor_id
        if row_id is not None and self._need.group_by is None:
            self.app.copy_to_clipboard(row_id)
            self.console.say(f"copied {row_id}")

    # What the widgets tell.

    @on(FilterBar.Opened)
    def _learn_values(self) -> None:
        if self._values is not None:
            self._values.refresh()

    @on(ValuesRead)
    def _offer_values(self, message: ValuesRead) -> None:
        self._filter_bar.learn(message.values)

    @on(FilterBar.Closed)
    def _filter_closed(self, message: FilterBar.Closed) -> None:
        self.take_focus()
        if message.filter is not None:
            self._use(message.filter)

    @on(CountsLine.StateChosen)
    def _toggle_state(self, message: CountsLine.StateChosen) -> None:
        self._use(of_states(self._need.filter, toggled(self._need.filter, message.state)))

    @on(RowTable.CursorMoved, "#rows")
    def _follow_the_operator(self, message: RowTable.CursorMoved) -> None:
        if message.by_hand:
            self._task_feed.touch(message.row_id)
            follow = message.at_top and self._snapshot.at_start
            if follow is not self._need.follow:
                self._ask(follow=follow)

    @on(RowTable.NearEdge, "#rows")
    def _load_more(self, message: RowTable.NearEdge) -> None:
        self._task_feed.near(message.which)

    @on(TaskTable.EndWanted)
    def _end_wanted(self, message: TaskTable.EndWanted) -> None:
        self._go_to_end(message.which)

    @on(RowTable.MarksChanged, "#rows")
    def _marks_changed(self, message: RowTable.MarksChanged) -> None:
        if message.marks:
            self._all_that_match = False
        self._task_feed.busy(bool(message.marks))
        self._note()

    @on(RowTable.MarksChanged, "#groups")
    def _group_marks_changed(self) -> None:
        self._note()

    @on(RowTable.Opened, "#rows")
    def _open_row(self, message: RowTable.Opened) -> None:
        # Whoever comes back finds the cursor on this row, not on whichever is the newest then.
        self._ask(follow=False)
        self.console.open_task(message.row_id)

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
        self._need = replace(self._need, group_by=None)
        self._use(narrowed)

    # One way to change what is wanted, one to show what came.

    @property
    def _task_feed(self) -> TaskFeed:
        return cast("TaskFeed", self.feed)

    def _use(self, understood: TaskFilter) -> None:
        """Marks of rows that are no longer in sight would be acted on unseen."""
        self._table.action_clear_marks()
        self._groups.action_clear_marks()
        self._all_that_match = False
        self._ask(filter=understood, follow=self._need.sort is Sort.NEWEST)
        self._filter_bar.show(understood.text)
        self._note()

    def _ask(self, **changes: Any) -> None:
        before, self._need = self._need, replace(self._need, **changes)
        if (self._need.filter, self._need.sort) != (before.filter, before.sort):
            self._land = "start"
        if self.feed is not None:
            self._task_feed.ask(self._need)
        grouped = self._need.group_by is not None
        if grouped is not self.has_class("-grouped"):
            self.set_class(grouped, "-grouped")
            if not self._filter_bar.editing:
                self.take_focus()
        self._show_all()

    def _go_to_end(self, which: Edge) -> None:
        ascending = self._need.sort in ASCENDING
        self._ask(follow=which == "start" and self._need.sort is Sort.NEWEST)
        beyond = self._snapshot.held or not (self._snapshot.at_start if which == "start" else self._snapshot.at_end)
        if beyond:
            self._land = which
            self._task_feed.jump("newest" if (which == "start") is not ascending else "oldest")

    def _open_menu(self, menu: Sheet[ResultT], take: Callable[[ResultT], None]) -> None:
        self.console.push_sheet(menu, lambda result: None if result is None else take(result))

    def _show_all(self) -> None:
        snapshot, link = self._snapshot, self.console.link
        now = link.clock.now()
        stick = self._need.follow
        empty = empty_words(snapshot, link.status, now)
        self._table.show(snapshot.rows, now=now, struck=snapshot.struck, stick=stick, empty=empty)
        if self._need.group_by is not None:
            words = no_groups_words(snapshot, self._need.group_by)
            self._groups.show_groups(snapshot.groups, self._need.group_by, now=now, empty=words)
        self._counts.show(tally(snapshot, self._need, self._glyphs, held=link.held))

    def _tick(self) -> None:
        if self.shown and self.console.link.status.is_up:
            now = self.console.link.clock.now()
            self._table.tick(now)
            self._groups.tick(now)

    @property
    def _choice(self) -> Choice:
        table = self._table if self._need.group_by is None else self._groups
        ids = sorted(self._table.marks) or [row_id for row_id in (self._table.cursor_id,) if row_id is not None]
        groups = tuple(group.key for group in self._groups.chosen())
        return Choice(self._need, self._all_that_match, groups, tuple(ids), len(table.marks))

    def _note(self) -> None:
        words = self._choice.words
        self.console.note(f"{self._glyphs.mark} {words}" if words else "")

    def _show_status(self, _status: LinkStatus) -> None:
        self._show_all()

    def _let_go(self) -> None:
        if self._values is not None:
            self._values.stop()
        if self._status_ends is not None:
            self._status_ends()
