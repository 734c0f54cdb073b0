"""The workflows screen: a live list with each workflow's progress, and the selection that verbs act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on

from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.query import WORKFLOWS, WorkflowFilter, parse_workflows
from horsies.views import WorkflowSort
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.intents import Intent
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import zone_of
from horsies_tui.story.beside import StoryPane, Subject, WithStory
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.menus import toggled
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import FilteredView
from horsies_tui.workflow.node import offered, unfit_verbs
from horsies_tui.workflows.columns import WORKFLOW_COLUMNS
from horsies_tui.workflows.feed import WorkflowsFeed, WorkflowsSnapshot
from horsies_tui.workflows.workflow_list_texts import (
    FLOW_ORDER,
    empty_flows,
    extent_of,
    flow_states_menu,
    flow_tally,
    of_flow_states,
    sort_menu,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.display.exporting import Export
    from horsies.views import WorkflowRow
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.story.companion import Companion

_TICK_S: Final = 0.25
USUAL_FILTER: Final = "parent:no"
"""Sub-workflows are opened from the graph of their parent; in the list they would stand between the others."""
PLACEHOLDER: Final = f"filter, for example {WORKFLOWS.example}"


class WorkflowsView(WithStory[WorkflowsSnapshot], FilteredView[WorkflowsSnapshot]):
    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "age": (WorkflowSort.NEWEST, WorkflowSort.OLDEST),
        "run": (WorkflowSort.OPEN,),
        "state": (WorkflowSort.ENDED,),
    }
    """Those that an index serves."""

    _table: RowTable[WorkflowRow]
    _sort: WorkflowSort

    TITLE = "Workflows"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.WORKFLOWS, Scope.FLOWS),
        *bindings_of("verbs.undo", "verbs.outcome"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._filter = parse_workflows(USUAL_FILTER)
        self._snapshot = WorkflowsSnapshot()
        self._unfit: frozenset[str] = frozenset()
        """Verbs for which none of the chosen workflows is in the right state."""
        self._sort = WorkflowSort.NEWEST
        self._follow = True
        """Keep the first rows in view, until the operator moves away from the first row."""
        self._land = False
        """Move the cursor to the first row when the requested rows arrive."""

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(read=parse_workflows, placeholder=PLACEHOLDER, id="filter")
        self._filter_bar.named = lambda: self.console.options.settings.filters_of("workflows")
        self._counts = CountsLine(self._glyphs, order=FLOW_ORDER, things="workflows", id="counts")
        self._table = RowTable(WORKFLOW_COLUMNS, glyphs=self._glyphs, id="workflows")
        self._pane = StoryPane({"workflow": _workflow}, id="pane")
        yield from (self._filter_bar, self._counts, self._pane.beside(self._table))

    def on_mount(self) -> None:
        self._show_order()
        self._filter_bar.show(self._filter.text)
        self.set_interval(_TICK_S, self._tick)

    # Called by the base class.

    def create_feed(self, link: DatabaseLink, publish: Callable[[WorkflowsSnapshot], None]) -> WorkflowsFeed:
        feed = WorkflowsFeed(link, publish)
        feed.ask(self._filter, self._sort)
        return feed

    def draw(self, snapshot: WorkflowsSnapshot) -> None:
        self._snapshot = snapshot
        self._filter_bar.learn(
            {
                "name": sorted({row.name for row in snapshot.rows}),
                "definition": sorted({row.definition_key for row in snapshot.rows if row.definition_key}),
                "error": sorted({row.error_code for row in snapshot.rows if row.error_code}),
            }
        )
        self._show()

    def fits(self, action: Action) -> bool:
        if action.scope is Scope.TABLE:
            return bool(self._table.rows)
        statuses = [row.status for row in self._table.chosen]
        unseen = len(statuses) < len(self._table.marks)
        return action.scope is not Scope.FLOWS or unseen or offered(action.record, statuses)

    def intent(self, verb: str) -> Intent | None:
        """Return the intent for the marked workflows, else for the one under the cursor."""
        if ("node", verb) in VERBS:
            self.console.say(f"{verb} is for a node: enter opens the workflow's graph")
            return None
        ids = self._table.chosen_ids
        if not ids:
            self.say_none_chosen(verb, "workflow")
            return None
        return Intent(VERBS["workflow", verb], Selection.of_ids(ids))

    def export(self) -> Export[WorkflowRow]:
        from horsies.display.exporting import workflows_export

        return workflows_export(self._filter, self._sort)

    def leave(self) -> bool:
        """`esc` undoes one step at a time: the marks, the filter."""
        if self._leave_story():
            return True
        if self._table.marks:
            self._clear_marks()
            return True
        return self._leave_filter(self._filter)

    def neighbour(self, step: int) -> str | None:
        return self._table.neighbour(step)

    def refresh_now(self) -> None:
        self._workflows_feed.refresh()
        self._pane.refresh_now()

    def times_changed(self) -> None:
        self._show()
        self._pane.times_changed()

    def subject(self) -> Subject | None:
        return None if self._table.cursor_id is None else Subject("workflow", self._table.cursor_id)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Resume is offered for paused workflows, pause for running ones."""
        if action == "verb":
            return parameters[0] not in self._unfit
        return super().check_action(action, parameters)

    def frozen_changed(self) -> None:
        self._show()

    def action_sort(self) -> None:
        self._open_menu(sort_menu(self._sort, self._glyphs), self._sort_by)

    def _sort_by(self, sort: str) -> None:
        self._sort = WorkflowSort(sort)
        self._show_order()
        self._table.expect_others()
        self._land = self._follow = True
        self._workflows_feed.ask(self._filter, self._sort)

    def action_states(self) -> None:
        menu = flow_states_menu(self._filter, self._snapshot, self._glyphs)
        self._open_menu(menu, lambda wanted: self._use(of_flow_states(self._filter, wanted)))

    # Messages from widgets.

    @on(CountsLine.StateChosen)
    def _toggle_state(self, message: CountsLine.StateChosen) -> None:
        self._use(of_flow_states(self._filter, toggled(self._filter, message.state)))

    @on(RowTable.NearEdge)
    def _load_more(self, message: RowTable.NearEdge) -> None:
        message.stop()
        if message.which == "end":
            self._workflows_feed.more()

    @on(RowTable.MarksChanged)
    def _offer_for_marks(self) -> None:
        self._offer_verbs()

    @on(RowTable.CursorMoved)
    def _offer_for_row(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        if message.by_hand:
            self._follow = message.at_top
        self._offer_verbs()

    @on(RowTable.Opened)
    def _open_row(self, message: RowTable.Opened) -> None:
        message.stop()
        self.console.show_workflow(message.row_id)

    # Drawing.

    @property
    def _workflows_feed(self) -> WorkflowsFeed:
        return cast("WorkflowsFeed", self.feed)

    def _use(self, wanted: WorkflowFilter) -> None:
        self._filter = wanted
        super()._use(wanted)
        self._land = True
        if self.feed is not None:
            self._workflows_feed.ask(wanted, self._sort)

    def _show(self) -> None:
        snapshot, link = self._snapshot, self.console.link
        empty = empty_flows(snapshot, USUAL_FILTER, link.status, link.clock.now())
        self._table.show(snapshot.rows, now=self.now, stick=self._follow, empty=empty, extent=extent_of(snapshot))
        if (
            self._land
            and not snapshot.loading
            and (snapshot.filter_text, snapshot.sort) == (self._filter.text, self._sort)
        ):
            self._land = False
            self._table.move_to(0)
        self._offer_verbs()
        up = link.status.is_up and snapshot.error is None
        self._counts.show(flow_tally(snapshot, zone_of(utc=self.console.utc), frozen=self.frozen_at is not None, up=up))

    def _offer_verbs(self) -> None:
        statuses = [row.status for row in self._table.chosen]
        # Marks stay on rows that are no longer loaded; their states are unknown.
        unfit = unfit_verbs(statuses) if len(statuses) >= len(self._table.marks) else frozenset()
        if unfit != self._unfit:
            self._unfit = unfit
            self.refresh_bindings()

    def _tick(self) -> None:
        if not self.shown:
            return
        if self.console.link.status.is_up and not self._snapshot.loading:
            self._table.tick(self.now)
        else:
            self._show()


def _workflow() -> type[Companion[Any]]:
    from horsies_tui.workflow.beside import WorkflowBeside

    return WorkflowBeside
