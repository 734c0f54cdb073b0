"""The tasks screen: the keys of the task list, and the selection that verbs act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import on

from horsies.operations.verb import TaskVerb
from horsies.query import FilterError, TaskFilter, parse
from horsies.views import Sort
from horsies_tui.actions import Scope, bindings
from horsies_tui.clipboard import copy
from horsies_tui.look.clock import zone_of
from horsies_tui.look.units import number
from horsies_tui.tasks.filter_edits import NoSuchFilter, all_shown, of_groups, of_states
from horsies_tui.tasks.listing import TaskList
from horsies_tui.tasks.menus import NO_GROUPS, column_menu, group_menu, sort_menu, state_menu, time_prompt
from horsies_tui.tasks.selection import Choice
from horsies_tui.tasks.table import TaskTable
from horsies_tui.tasks.words import toggled
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.task_columns import TASK_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from horsies.operations.selection import Selection
    from horsies.views import GroupBy
    from horsies_tui.actions import Action
    from horsies_tui.intents import Intent
    from horsies_tui.widgets.sheet import Sheet

ResultT = TypeVar("ResultT")


class TasksView(TaskList):
    """Translates keys and messages into requests, and determines the targets of a verb."""

    TITLE = "Tasks"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TASKS, Scope.VERBS)]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._all_that_match = False

    def on_mount(self) -> None:
        if self.console.options.filter:
            self.filter_by(self.console.options.filter)

    def selection(self) -> Selection | None:
        """Raises NoSuchFilter if the choice cannot be expressed as a filter."""
        return self._choice.selection()

    def intent(self, verb: str) -> Intent | None:
        try:
            return super().intent(verb)
        except NoSuchFilter as error:
            self.console.say_error(error.message)
            return None

    def fits(self, action: Action) -> bool:
        """Tasks chosen by a filter or in groups may be in any state; those of rows are known."""
        if self._all_that_match or self._need.group_by is not None:
            return True
        marks = self._table.marks
        rows = [row for row in self._table.rows if row.id in (marks or {self._table.cursor_id})]
        if action.scope is Scope.TABLE:
            return bool(self._table.rows)
        verb = action.record
        if not isinstance(verb, TaskVerb):
            return True
        return len(rows) < len(marks) or any(verb.fits(row.status, row.error_code) for row in rows)

    def busy(self, busy: bool) -> None:
        self._task_feed.busy(busy or bool(self._table.marks))

    def leave(self) -> bool:
        """`esc` undoes one step at a time: the choice, the groups, the filter."""
        if self._choice.words:
            self._choose_nothing()
        elif self._need.group_by is not None:
            self._group_by(None)
        elif self._need.filter.terms:
            self._use(TaskFilter())
        else:
            return False
        return True

    def acted(self) -> None:
        """Clear the choice, so that another verb does not apply to it again."""
        self._choose_nothing()
        self.refresh_now()

    def neighbour(self, step: int) -> str | None:
        index = self._table.cursor_index + step
        if not 0 <= index < len(self._table.rows):
            return None
        self._table.move_to(index)
        return self._table.cursor_id

    def show(self) -> None:
        super().show()
        self._note()

    def filter_by(self, text: str) -> None:
        """Show the matching tasks; an invalid filter is opened for editing at the error."""
        try:
            self._use(parse(text))
        except FilterError:
            self._filter_bar.edit(text)
            self._filter_bar.action_apply()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a filter is typed its keys are letters, and the footer offers no other keys."""
        return not (action == "filter" and self._filter_bar.editing)

    def action_filter(self) -> None:
        self._filter_bar.edit()

    def action_follow(self) -> None:
        if self._need.sort is not Sort.NEWEST:
            self._ask(sort=Sort.NEWEST, follow=True)
        elif self._need.follow:
            self._ask(follow=False)
        else:
            self._table.action_first()

    def action_sort(self) -> None:
        self._open_menu(sort_menu(self._need.sort, self._glyphs), lambda sort: self._ask(sort=Sort(sort)))

    def action_group(self) -> None:
        def group(by: str) -> None:
            self._group_by(None if by == NO_GROUPS else cast("GroupBy", by))

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

        prompt = time_prompt(self.console.link.clock.now(), zone_of(utc=self.console.utc), self._glyphs)
        self._open_menu(prompt, self._jump)

    def action_mark_matching(self) -> None:
        if self._need.group_by is not None:
            self._groups.action_mark_shown()
            return
        try:
            all_shown(self._need.filter, self._need.sort)
        except NoSuchFilter as error:
            self.console.say_error(error.message)
            return
        before = f" instead of the {number(len(self._table.marks))} marked" if self._table.marks else ""
        already = "already " if self._all_that_match else ""
        self._table.action_clear_marks()
        self._all_that_match = True
        self._note()
        chosen = f"all that match {self._need.filter}, shown or not{before}"
        self.console.say(f"{already}chosen: {chosen}; esc lets them go")

    def action_copy(self) -> None:
        """Copy the task's id, or the group's name."""
        group = self._groups.cursor_row
        text = self._table.cursor_id if self._need.group_by is None else group and group.key
        if text:
            copy(self, text, text)

    # Messages from widgets.

    @on(FilterBar.Opened)
    def _filter_opened(self) -> None:
        self._learn_values()

    @on(TaskList.ValuesRead)
    def _offer_values(self, message: TaskList.ValuesRead) -> None:
        self._filter_bar.learn(message.values)

    @on(FilterBar.Closed)
    def _filter_closed(self, message: FilterBar.Closed) -> None:
        self.take_focus()
        if isinstance(message.filter, TaskFilter):
            self._use(message.filter)

    @on(CountsLine.StateChosen)
    def _toggle_state(self, message: CountsLine.StateChosen) -> None:
        self._use(of_states(self._need.filter, toggled(self._need.filter, message.state)))

    @on(RowTable.CursorMoved, "#rows")
    def _follow_the_operator(self, message: RowTable.CursorMoved) -> None:
        if message.by_hand:
            self._task_feed.touch(message.row_id)
            self._follow_at_top()

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
        # Stop following, so that the cursor is still on this row when the operator comes back.
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
        self._use(narrowed)
        self._group_by(None)

    def _use(self, understood: TaskFilter) -> None:
        """Use another filter. The choice is cleared: verbs must not act on rows that are no longer visible."""
        self._choose_nothing()
        self._ask(filter=understood, follow=self._need.sort is Sort.NEWEST)
        self._filter_bar.show(understood.text)

    def _open_menu(self, menu: Sheet[ResultT], take: Callable[[ResultT], None]) -> None:
        self.console.push_sheet(menu, lambda result: None if result is None else take(result))

    @property
    def _choice(self) -> Choice:
        table = self._table if self._need.group_by is None else self._groups
        ids = sorted(self._table.marks) or [row_id for row_id in (self._table.cursor_id,) if row_id is not None]
        groups = tuple(group.key for group in self._groups.chosen())
        return Choice(self._need, self._all_that_match, groups, tuple(ids), len(table.marks))

    def _group_by(self, by: GroupBy | None) -> None:
        self._ask(group_by=by)
        self._note()

    def _choose_nothing(self) -> None:
        self._all_that_match = False
        self._table.action_clear_marks()
        self._groups.action_clear_marks()
        self._note()

    def _note(self) -> None:
        words = self._choice.words
        self.console.note(f"{self._glyphs.mark} {words}" if words else "")
