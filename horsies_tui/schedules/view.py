"""The schedules screen: which come when, how they ended, and what will be sent; run now, pause, resume and skip."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import on

from horsies.operations.selection import Selection
from horsies.operations.verb import ScheduleVerb
from horsies.operations.verbs import VERBS
from horsies.query import SCHEDULES, ScheduleFilter, parse_schedules
from horsies.views.row_filter import matching_schedules
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.clipboard import copy
from horsies_tui.intents import Intent
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import number, zone_of
from horsies_tui.schedules.columns import SCHEDULE_COLUMNS, SORT_HELP, SORT_WORDS, ScheduleSort, in_order
from horsies_tui.schedules.document import RUNS, ScheduleContext, document, reading, target_of
from horsies_tui.schedules.feed import SchedulesFeed, SchedulesSnapshot
from horsies_tui.schedules.schedule_texts import empty, schedulers, summary
from horsies_tui.story.lines import OpenTask, OpenWorkflow, ShowTasks
from horsies_tui.story.page import Place
from horsies_tui.story.view import StoryView
from horsies_tui.widgets.chips_line import ChipsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.menus import Item, PickOne
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import LIST_STEP, FilteredView, capped, in_steps, set_height
from horsies_tui.widgets.steady_order import SteadyOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from horsies.views import ScheduleRow
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink

_LOW: Final = 30
"""A screen with fewer lines is a low one."""
_LEAST_STORY: Final = 16
PLACEHOLDER: Final = f"filter, for example {SCHEDULES.example}"
_SORTS: Final = tuple(Item(sort, SORT_WORDS[sort], *SORT_HELP[sort]) for sort in ScheduleSort)
_OF_THE_LIST: Final = frozenset({"filter", "sort", "columns"})
_OF_THE_STORY: Final = frozenset({"previous_row", "next_row"})


class SchedulesView(FilteredView[SchedulesSnapshot]):
    """The list with the schedule under the cursor below it; `-opened`: that schedule alone."""

    TITLE = "Schedules"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.SCHEDULES),
        *bindings_of("verbs.undo", "verbs.outcome"),
    ]
    DEFAULT_CSS = """
    SchedulesView {
        & > #story { height: 1fr; }
        &.-low > #rows { height: 1fr; }
        &.-low > #story { height: 7; }
        &.-empty > #rows { height: 1fr; }
        &.-empty > #story { display: none; }
        &.-opened > #line, &.-opened > #filter, &.-opened > #rows { display: none; }
        &.-opened > #story { height: 1fr; }
        &.-old > RowTable, &.-old > StoryView { text-style: dim; }
    }
    """

    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "state": (ScheduleSort.TROUBLE,),
        "name": (ScheduleSort.NAME,),
        "next": (ScheduleSort.NEXT,),
        "last": (ScheduleSort.LAST,),
    }

    _table: RowTable[ScheduleRow]
    _sort: ScheduleSort

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._snapshot = SchedulesSnapshot()
        self._filter = ScheduleFilter()
        self._sort = ScheduleSort.TROUBLE
        self._order = SteadyOrder()
        self._shown: tuple[ScheduleRow, ...] = ()
        self._opened: str | None = None
        self._busy = False

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(read=parse_schedules, placeholder=PLACEHOLDER, id="filter")
        self._filter_bar.named = lambda: self.console.options.settings.filters_of("schedules")
        self._line = ChipsLine(self._glyphs, id="line")
        self._table = RowTable(SCHEDULE_COLUMNS, glyphs=self._glyphs, id="rows")
        self._story = StoryView(self._glyphs, beside=True, id="story")
        yield from (self._filter_bar, self._line, self._table, self._story)

    def on_mount(self) -> None:
        self._show_order()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < _LOW, "-low")
        self._arrange_parts()

    # Called by the base class.

    def create_feed(self, link: DatabaseLink, publish: Callable[[SchedulesSnapshot], None]) -> SchedulesFeed:
        feed = SchedulesFeed(link, publish)
        feed.ask(self._looked_at)
        return feed

    def draw(self, snapshot: SchedulesSnapshot) -> None:
        self._snapshot = snapshot
        definitions = [row.definition for row in snapshot.rows if row.definition is not None]
        self._filter_bar.learn(
            {
                "name": [row.name for row in snapshot.rows],
                "sends": sorted({one.target for one in definitions}),
                "queue": sorted({one.queue for one in definitions if one.queue}),
                "zone": sorted({one.timezone for one in definitions}),
            }
        )
        self._show_all()

    @property
    def _focused(self) -> Widget:
        return self._table if self._opened is None else self._story

    def refresh_now(self) -> None:
        self._order.renew()
        self._schedules_feed.refresh()

    def times_changed(self) -> None:
        self._show_story()

    def frozen_changed(self) -> None:
        self._show_all()

    def busy(self, busy: bool) -> None:
        self._busy = busy

    def intent(self, verb: str) -> Intent | None:
        names = self._table.chosen_ids if self._opened is None else (self._opened,)
        if not names:
            self.say_none_chosen(verb, "schedule")
            return None
        return Intent(VERBS["schedule", verb], Selection.of_ids(names))

    def fits(self, action: Action) -> bool:
        if action.scope is Scope.TABLE:
            return bool(self._table.rows)
        verb = action.record
        if not isinstance(verb, ScheduleVerb):
            return True
        chosen = self._table.chosen if self._opened is None else [row for row in self._shown if row.id == self._opened]
        return any(row.definition is not None and verb.fits(row.paused_at is not None) for row in chosen)

    def neighbour(self, step: int) -> str | None:
        """Return the task of the run below that of the shown task (negative: above)."""
        story = self._snapshot.story
        tasks = [
            (run.slot, target.task_id)
            for run in (() if story is None else story.row.runs)
            if isinstance(target := target_of(run), OpenTask)
        ]
        here = self._story.place
        at = next((at + step for at, (slot, _) in enumerate(tasks) if here == Place(RUNS, slot)), -1)
        if not 0 <= at < len(tasks):
            return None
        slot, task_id = tasks[at]
        self._story.go_to(Place(RUNS, slot))
        return task_id

    def leave(self) -> bool:
        """`esc` undoes one step at a time: the marks, the open schedule, a click beside the list, the filter."""
        if self._table.marks:
            self._clear_marks()
        elif self._opened is not None:
            self._open(None)
        elif self._story.has_focus:
            self._table.focus()
        else:
            return self._leave_filter(self._filter)
        return True

    def filter_by(self, text: str) -> None:
        self._open(None)
        super().filter_by(text)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _OF_THE_LIST and self._opened is not None:
            return False
        if action in _OF_THE_STORY and self._opened is None:
            return False
        return super().check_action(action, parameters)

    def action_sort(self) -> None:
        self._open_menu(PickOne("Order", _SORTS, self._sort, self._glyphs), self._sort_by)

    def _sort_by(self, sort: str) -> None:
        self._sort = ScheduleSort(sort)
        self._show_order()
        self._order.renew()
        self._table.action_first()
        self._show_all()

    def action_previous_row(self) -> None:
        self._step(-1, "this is the first schedule of the list")

    def action_next_row(self) -> None:
        self._step(1, "this is the last schedule of the list")

    def action_copy(self) -> None:
        """Copy the id of the run under the cursor, or the name of the schedule."""
        line = self._story.line if self._opened is not None else None
        match None if line is None else line.target:
            case OpenTask(run_id) | OpenWorkflow(run_id):
                copy(self, run_id, run_id)
            case _ if self._looked_at is not None:
                copy(self, self._looked_at, self._looked_at)

    # Messages from widgets.

    @on(RowTable.CursorMoved)
    def _look_at_another(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        if message.by_hand:
            self._order.touch(self.console.link.clock.monotonic())
        if self._opened is None:
            self._show_story()

    @on(RowTable.Opened)
    def _open_row(self, message: RowTable.Opened) -> None:
        message.stop()
        self._open(message.row_id)

    @on(StoryView.Chosen)
    def _follow(self, chosen: StoryView.Chosen) -> None:
        chosen.stop()
        match chosen.target:
            case OpenTask(task_id):
                self.console.open_task(task_id)
            case OpenWorkflow(workflow_id):
                self.console.show_workflow(workflow_id)
            case ShowTasks(filter_text):
                self.console.show_tasks(filter_text)

    @on(StoryView.Resized)
    def _make_for_width(self, resized: StoryView.Resized) -> None:
        resized.stop()
        self._show_story()

    # Drawing.

    @property
    def _schedules_feed(self) -> SchedulesFeed:
        return cast("SchedulesFeed", self.feed)

    @property
    def _looked_at(self) -> str | None:
        return self._opened or self._table.cursor_id

    @property
    def _now(self) -> datetime:
        """The time, at most a little after the last read: on a frozen screen no schedule must appear overdue."""
        return capped(self.now, None if self._snapshot.found is None else self._snapshot.found.now)

    def _use(self, wanted: ScheduleFilter) -> None:
        super()._use(wanted)
        self._filter = wanted
        self._order.renew()
        self._show_all()
        self._table.choose_one()

    def _open(self, name: str | None) -> None:
        if name == self._opened:
            return
        self._opened = name
        self.set_class(name is not None, "-opened")
        self._story.start_again()
        self._show_all()
        self.refresh_bindings()
        self.take_focus()

    def _step(self, step: int, no_more: str) -> None:
        name = self._table.neighbour(step)
        if name is None:
            self.console.say(no_more)
        else:
            self._open(name)

    def _show_all(self) -> None:
        """Show the list, sorted and filtered, and the story of the schedule under the cursor."""
        snapshot, now = self._snapshot, self._now
        self._shown = self._arranged(now)
        status, filtered = self.console.link.status, bool(self._filter.terms)
        why_empty = empty(snapshot, filtered=filtered, status=status, now=self.console.link.clock.now())
        self._table.show(self._shown, now=now, empty=self._glyphs.text(why_empty))
        self._table.marks &= {row.id for row in self._shown}
        self.set_class(not self._shown and self._opened is None, "-empty")
        self.set_class(snapshot.error is not None, "-old")
        self._summarise(now)
        self._arrange_parts()
        self._show_story()

    def _arranged(self, now: datetime) -> tuple[ScheduleRow, ...]:
        """Those that match; sorted only while the operator is idle."""
        rows = matching_schedules(self._filter, self._snapshot.rows, now)
        moment = self.console.link.clock.monotonic()
        busy = self._busy or self._opened is not None or bool(self._table.marks)
        moves = self._sort.moves
        order = partial(in_order, sort=self._sort, now=now)
        return self._order.arranged(rows, self._shown, order, moment, busy=busy, moves=moves)

    def _summarise(self, now: datetime) -> None:
        found = self._snapshot.found
        if found is None:
            return
        said = []
        if self.frozen_at is not None:
            said.append("FROZEN")
        if self._filter.terms:
            said.append(f"{number(len(self._shown))} of {number(len(found.rows))} match")
        if self._sort is not ScheduleSort.TROUBLE:
            said.append(SORT_WORDS[self._sort])
        if found.more:
            said.append(f"only the first {number(len(found.rows))}")
        if served := schedulers(found, now):
            said.append(served)
        self._line.show(summary(found, self._shown, now, self._glyphs) if found.rows else (), said)

    def _arrange_parts(self) -> None:
        """A short list leaves its lines to the story."""
        height = None
        if not self.has_class("-low", "-empty", "-opened"):
            lines = in_steps(len(self._shown) + 1)
            height = max(min(lines, self.size.height - 2 - _LEAST_STORY), 2 * LIST_STEP)
        set_height(self._table, height)

    def _show_story(self) -> None:
        name, story, width = self._looked_at, self._snapshot.story, self._story.text_width
        if self.feed is not None:
            self._schedules_feed.ask(name)
        if name is None or not width:
            return
        if story is None or story.row.name != name:
            self._story.put(reading(name, self._glyphs))
            return
        row = next((row for row in self._snapshot.rows if row.name == name), story.row)
        zone = zone_of(utc=self.console.utc)
        self._story.put(document(ScheduleContext(story, row, self._now, self._glyphs, zone), width))

    def tick(self) -> None:
        if self.shown and (self.console.link.status.is_up or self._snapshot.found is None):
            if self._snapshot.found is None:
                self._show_all()
            now = self._now
            self._table.tick(now)
            self._summarise(now)
            self._show_story()
