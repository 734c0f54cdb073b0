"""The tasks screen: the filtered list or its groups, and the selection for verbs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.message import Message

from horsies.domain.states import TASK_TERMINAL_STATES
from horsies.operations.verb import TaskVerb
from horsies.views import Sort, StatisticsSort
from horsies_tui.actions import Scope, bindings
from horsies_tui.clipboard import copy
from horsies_tui.feed.status import LinkState
from horsies_tui.feed.suggested_values import KnownValues
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import number, zone_of
from horsies_tui.story.beside import StoryPane, Subject, WithStory
from horsies_tui.tasks import menus
from horsies_tui.tasks.columns import ARGUMENTS, ArgumentTexts
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.filter_edits import ChosenGroups, NoSuchFilter, all_shown, of_states
from horsies_tui.tasks.grouping import NEXT, OF_GROUPS, GroupedTasks
from horsies_tui.tasks.groups import GroupList
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.tasks.statistics import StatisticsList, no_statistics_words
from horsies_tui.tasks.task_list_texts import empty_words, extent_of, no_groups_words, tally
from horsies_tui.tasks.window import ASCENDING
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.row_table import RowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.display.exporting import Export
    from horsies.operations.selection import Selection
    from horsies.query import TaskFilter
    from horsies.views import TaskRow
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.intents import Intent
    from horsies_tui.story.companion import Companion
    from horsies_tui.widgets.row_table import Edge
from horsies_tui.widgets.menus import toggled

_TICK_S: Final = 0.125
"""Interval at which ages are updated. Updating all of them at once would send 5 kB, which delays a key by 150 ms at
30 kB/s."""


class TasksView(WithStory[TaskSnapshot], GroupedTasks):
    """The view. It follows new tasks while the cursor is on the first row; otherwise rows stay where they are."""

    TITLE = "Tasks"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TASKS, Scope.VERBS)]
    DEFAULT_CSS = """
    TasksView {
        & GroupList, & StatisticsList { display: none; }
        &.-grouped GroupList, &.-statistics StatisticsList { display: block; }
        &.-grouped #rows, &.-statistics #rows { display: none; }
    }
    """

    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "age": (Sort.NEWEST, Sort.OLDEST),
        "wait": (Sort.WAITING,),
        "priority": (Sort.WAITING,),
        "run": (Sort.RUNNING,),
        "state": (Sort.FINISHED,),
    }
    """Sort orders by column, limited to those with an index."""

    _table: RowTable[TaskRow]

    @dataclass
    class ValuesRead(Message, bubble=False):
        """Suggestions for the filter were read."""

        values: Mapping[str, Sequence[str]]

    @dataclass
    class LinkChanged(Message, bubble=False):
        """The link's status changed. It is posted as a message because the link may outlive the widgets."""

        status: LinkStatus

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TasksView.LinkChanged)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._need = TaskNeed()
        self._sort = self._need.sort
        self._snapshot = TaskSnapshot()
        self._values: KnownValues | None = None
        self._status_ends: Callable[[], None] | None = None
        self._all_that_match = False
        self._land: Edge | None = None
        """The edge to which the cursor moves when the requested rows arrive."""

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(id="filter")
        self._filter_bar.named = lambda: self.console.options.settings.filters
        self._counts = CountsLine(self._glyphs, id="counts")
        self._arguments = ArgumentTexts(frozenset(self.console.options.config.mask_arguments))
        self._table = RowTable(self._arguments.columns(), glyphs=self._glyphs, id="rows")
        self._groups = GroupList(self._glyphs, id="groups")
        self._statistics = StatisticsList(self._glyphs, id="statistics")
        self._pane = StoryPane({"task": _task}, id="pane")
        lists = self._pane.beside(self._table, self._groups, self._statistics)
        yield from (self._filter_bar, self._counts, lists)

    def on_mount(self) -> None:
        self.set_interval(_TICK_S, self._tick)
        self._show_order()
        if self.console.options.filter:
            self.filter_by(self.console.options.filter)

    def on_unmount(self) -> None:
        if self.feed is not None:
            self.feed.stop()
        self._end_subscriptions()

    def create_feed(self, link: DatabaseLink, publish: Callable[[TaskSnapshot], None]) -> TaskFeed:
        self._end_subscriptions()
        self._values = KnownValues(link, lambda values: cast("None", self.post_message(self.ValuesRead(values))))
        self._status_ends = link.on_status(lambda status: cast("None", self.post_message(self.LinkChanged(status))))
        feed = TaskFeed(link, publish)
        feed.ask(self._need)
        return feed

    def draw(self, snapshot: TaskSnapshot) -> None:
        self._snapshot = snapshot
        self._show_all()
        # An older snapshot may arrive after a new request, so only the feed's latest one is used.
        if self._land is not None and snapshot is self._task_feed.snapshot and not snapshot.loading:
            self._table.move_to(0 if self._land == "start" else len(snapshot.rows) - 1)
            self._land = None

    @property
    def _lists(self) -> tuple[RowTable[Any], ...]:
        return (self._table, self._groups, self._statistics)

    @property
    def _focused(self) -> RowTable[Any]:
        if self._need.statistics is not None:
            return self._statistics
        return self._table if self._need.group_by is None else self._groups

    def subject(self) -> Subject | None:
        return None if self._table.cursor_id is None else Subject("task", self._table.cursor_id)

    def _story_fits(self) -> bool:
        return self._need.in_rows

    def refresh_now(self) -> None:
        self._task_feed.refresh()
        self._pane.refresh_now()

    def times_changed(self) -> None:
        self._show_all()
        self._pane.times_changed()

    def frozen_changed(self) -> None:
        self._follow_at_top()
        self._show_all()

    def selection(self) -> Selection | None:
        """Return the selection. Raises NoSuchFilter if it cannot be expressed as a filter."""
        return self._choice.selection()

    def intent(self, verb: str) -> Intent | None:
        try:
            return super().intent(verb)
        except NoSuchFilter as error:
            self.console.say_error(error.message)
            return None

    def export(self) -> Export[TaskRow]:
        from horsies.display.exporting import tasks_export

        return tasks_export(self._need.filter, self._need.sort)

    def fits(self, action: Action) -> bool:
        """Return whether an action fits the selected tasks. Those selected by filter or group may be in any state."""
        if action.scope is Scope.BESIDE:
            return self._need.in_rows
        if action.id in OF_GROUPS:
            return not self._need.in_rows and (action.id == NEXT or self._need.statistics is not None)
        if self._need.statistics is not None and isinstance(action.record, TaskVerb):
            return any(action.record.fits(status.value, None) for status in TASK_TERMINAL_STATES)
        if self._all_that_match or not self._need.in_rows:
            return action.id != "tasks.follow" or self._need.in_rows
        if action.scope is Scope.TABLE:
            return bool(self._table.rows)
        verb = action.record
        if not isinstance(verb, TaskVerb):
            return True
        rows = self._table.chosen
        unseen = len(rows) < len(self._table.marks)
        return unseen or any(verb.fits(row.status, row.error_code) for row in rows)

    def busy(self, busy: bool) -> None:
        self._task_feed.busy(busy or bool(self._table.marks))

    def leave(self) -> bool:
        """Undo one step on `esc`: the selection, then the groups, then the filter."""
        if self._leave_story():
            return True
        if self._choice.words:
            self._clear_marks()
        elif not self._need.in_rows:
            self._group(menus.NO_GROUPS)
        else:
            return self._leave_filter(self._need.filter)
        return True

    def neighbour(self, step: int) -> str | None:
        return self._table.neighbour(step)

    def show(self) -> None:
        super().show()
        self._note()

    # Keys.

    def action_follow(self) -> None:
        if self._need.sort is not Sort.NEWEST:
            self._ask(sort=Sort.NEWEST, follow=True)
        elif self._need.follow:
            self._ask(follow=False)
        else:
            self._table.action_first()

    def action_sort(self) -> None:
        if self._need.statistics is not None:
            menu = menus.order_menu(self._need.order, self._glyphs)
            self._open_menu(menu, lambda order: self._ask(order=StatisticsSort(order)))
            return
        self._open_menu(menus.sort_menu(self._need.sort, self._glyphs), self._sort_by)

    def _sort_by(self, sort: str) -> None:
        self._ask(sort=Sort(sort))

    def action_states(self) -> None:
        menu = menus.task_states_menu(self._need.filter, self._snapshot, self._glyphs)
        self._open_menu(menu, lambda states: self._use(of_states(self._need.filter, states)))

    def action_jump(self) -> None:
        if self._need.sort is Sort.WAITING:
            self.console.say_error("this list is sorted by priority, not by time; s changes the order")
            return

        prompt = menus.time_prompt(self.console.link.clock.now(), zone_of(utc=self.console.utc), self._glyphs)
        self._open_menu(prompt, self._jump)

    def action_mark_matching(self) -> None:
        if not self._need.in_rows:
            self._focused.action_mark_shown()
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
        self.console.say(f"{already}chosen: {chosen}; esc clears the choice")

    def action_copy(self) -> None:
        """Copy the id of the task or the name of the group."""
        group = self._groups.cursor_row
        text = self._focused.cursor_id if self._focused is not self._groups else group and group.key
        if text:
            copy(self, text, text)

    # Messages from widgets.

    @on(FilterBar.Opened)
    def _filter_opened(self) -> None:
        self._learn_values()

    @on(ValuesRead)
    def _offer_values(self, message: ValuesRead) -> None:
        self._filter_bar.learn(message.values)

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

    @on(RowTable.EndWanted, "#rows")
    def _end_wanted(self, message: RowTable.EndWanted) -> None:
        self._go_to_end(message.which)

    @on(RowTable.MarksChanged, "#rows")
    def _marks_changed(self, message: RowTable.MarksChanged) -> None:
        if message.marks:
            self._all_that_match = False
        self._task_feed.busy(bool(message.marks))

    @on(RowTable.Opened, "#rows")
    def _open_row(self, message: RowTable.Opened) -> None:
        # Stop following, so that the cursor is still on this row when the operator returns.
        self._ask(follow=False)
        self.console.open_task(message.row_id)

    def _use(self, wanted: TaskFilter) -> None:
        super()._use(wanted)
        self._ask(filter=wanted, follow=self._need.sort is Sort.NEWEST)

    @property
    def _choice(self) -> ChosenGroups:
        groups: tuple[str | None, ...] = tuple(group.key for group in self._groups.chosen)
        if self._need.statistics is not None:
            groups = self._statistics.chosen_ids
        found, marked = self._snapshot.statistics, len(self._focused.marks)
        return ChosenGroups(self._need, found, self._all_that_match, groups, self._table.chosen_ids, marked)

    def _clear_marks(self) -> None:
        self._all_that_match = False
        super()._clear_marks()
        self._note()

    def _note(self) -> None:
        words = self._choice.words
        self.console.note(f"{self._glyphs.mark} {words}" if words else "")

    # Requests to the feed.

    @property
    def _task_feed(self) -> TaskFeed:
        return cast("TaskFeed", self.feed)

    def _ask(self, **changes: Any) -> None:
        """Change a part of the need; the selected rows stay selected."""
        before, self._need = self._need, replace(self._need, **changes)
        self._sort = self._need.sort
        self._show_order()
        if (self._need.filter, self._need.sort) != (before.filter, before.sort):
            self._land = "start"
        if self.feed is not None:
            self._task_feed.ask(self._need)
        grouped, statistics = self._need.group_by is not None, self._need.statistics is not None
        if (grouped, statistics) != (self.has_class("-grouped"), self.has_class("-statistics")):
            self.set_class(grouped, "-grouped")
            self.set_class(statistics, "-statistics")
            self.take_focus()
            self._place_story()
        self._show_all()

    def _follow_at_top(self) -> None:
        """Follow while the cursor is on the first row; resume when it returns there, unless the screen is frozen."""
        at_top = self._table.cursor_index == 0 and self._snapshot.at_start
        follow = at_top and (self._need.follow or (self.shown and self.frozen_at is None))
        if follow is not self._need.follow:
            self._ask(follow=follow)

    def _go_to_end(self, which: Edge) -> None:
        ascending = self._need.sort in ASCENDING
        self._ask(follow=which == "start" and self._need.sort is Sort.NEWEST)
        beyond = self._snapshot.unseen or not (self._snapshot.at_start if which == "start" else self._snapshot.at_end)
        if beyond:
            self._land = which
            self._task_feed.jump("newest" if (which == "start") is not ascending else "oldest")

    def _jump(self, moment: datetime) -> None:
        self._ask(follow=False, group_by=None, statistics=None)
        self._land = "start"
        self._task_feed.jump(moment)

    # Drawing of snapshots.

    def _show_all(self) -> None:
        snapshot, link, now = self._snapshot, self.console.link, self.now
        self._arguments.use(snapshot.arguments)
        empty = empty_words(snapshot, link.status, link.clock.now())
        self._table.show(
            snapshot.rows,
            now=now,
            struck=snapshot.struck,
            stick=self._need.follow,
            empty=empty,
            usual=snapshot.usual,
            extent=extent_of(snapshot),
        )
        if self._need.group_by is not None:
            words = no_groups_words(snapshot, self._need.group_by)
            self._groups.show_groups(snapshot.groups, self._need.group_by, now=now, empty=words)
        if self._need.statistics is not None:
            words = no_statistics_words(snapshot.statistics, self._need.statistics, snapshot.filter_text)
            found, at = snapshot.statistics, link.clock.monotonic()
            self._statistics.show_statistics(found, self._need.order, moment=at, now=now, empty=words)
        zone, up = zone_of(utc=self.console.utc), link.status.is_up and snapshot.error is None
        self._counts.show(tally(snapshot, self._need, self._glyphs, zone, frozen=self.frozen_at is not None, up=up))

    def _tick(self) -> None:
        status = self.console.link.status
        if self.shown and status.is_up:
            has_arguments = any(placed.column.key == ARGUMENTS for placed in self._table.placed)
            if has_arguments is not self._need.arguments:
                self._ask(arguments=has_arguments)
            self._table.tick(self.now, often=True)
            self._groups.tick(self.now)
        elif self.shown and status.state is LinkState.CONNECTING:
            self._show_all()

    @on(LinkChanged)
    def _show_status(self, message: LinkChanged) -> None:
        if message.status.is_up and self._filter_bar.editing:
            self._learn_values()
        self._show_all()

    def _learn_values(self) -> None:
        if self._values is not None:
            self._values.refresh()

    def _end_subscriptions(self) -> None:
        if self._values is not None:
            self._values.stop()
        if self._status_ends is not None:
            self._status_ends()


def _task() -> type[Companion[Any]]:
    from horsies_tui.task.view import TaskBeside

    return TaskBeside
