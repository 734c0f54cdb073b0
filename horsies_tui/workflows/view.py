"""The workflows screen: a live list with each workflow's progress, and the selection that verbs act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import on

from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.query import WORKFLOWS, FilterError, WorkflowFilter, parse_workflows
from horsies.query.sense import states
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.clipboard import copy
from horsies_tui.intents import Intent
from horsies_tui.look.clock import zone_of
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import number
from horsies_tui.view import ConsoleView
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workflow.verbs import offered, unfit_verbs
from horsies_tui.workflows.columns import WORKFLOW_COLUMNS
from horsies_tui.workflows.feed import WorkflowsFeed, WorkflowsSnapshot
from horsies_tui.workflows.words import (
    FLOW_ORDER,
    empty_flows,
    flow_states_menu,
    flow_states_on,
    flow_tally,
    of_flow_states,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.views import WorkflowRow
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import Link

_TICK_S: Final = 0.25
USUAL_FILTER: Final = "parent:no"
"""Sub-workflows are opened from the graph of their parent; in the list they would stand between the others."""
PLACEHOLDER: Final = f"filter, as in {WORKFLOWS.example}"


class WorkflowsView(ConsoleView[WorkflowsSnapshot]):
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
        self._follow = True
        """Keep the newest in view, until the operator moves away from the first row."""
        self._land = False
        """Move the cursor to the first row when the requested rows arrive."""

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(read=parse_workflows, placeholder=PLACEHOLDER, id="filter")
        self._counts = CountsLine(self._glyphs, order=FLOW_ORDER, things="workflows", id="counts")
        self._table: RowTable[WorkflowRow] = RowTable(WORKFLOW_COLUMNS, glyphs=self._glyphs, id="workflows")
        yield from (self._filter_bar, self._counts, self._table)

    def on_mount(self) -> None:
        self._filter_bar.show(self._filter.text)
        self.set_interval(_TICK_S, self._tick)

    # Called by the base class.

    def create_feed(self, link: Link, publish: Callable[[WorkflowsSnapshot], None]) -> WorkflowsFeed:
        feed = WorkflowsFeed(link, publish)
        feed.ask(self._filter)
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
        chosen = self._table.marks or {self._table.cursor_id}
        statuses = [row.status for row in self._table.rows if row.id in chosen]
        if action.scope is Scope.TABLE:
            return bool(self._table.rows)
        return (
            action.scope is not Scope.FLOWS
            or len(statuses) < len(self._table.marks)
            or offered(action.record, statuses)
        )

    def intent(self, verb: str) -> Intent | None:
        """For the marked workflows, else the one under the cursor."""
        if ("node", verb) in VERBS:
            self.console.say(f"{verb} is for a node: enter opens the workflow's graph")
            return None
        row_id = self._table.cursor_id
        ids = sorted(self._table.marks) or [each for each in (row_id,) if each is not None]
        if not ids:
            self.console.say(f"{verb}: no workflow is chosen; an arrow key chooses one")
            return None
        return Intent(VERBS["workflow", verb], Selection.of_ids(ids))

    def acted(self) -> None:
        self._table.action_clear_marks()
        self.refresh_now()

    def leave(self) -> bool:
        """`esc` undoes one step at a time: the marks, the filter."""
        if self._table.marks:
            self._table.action_clear_marks()
        elif self._filter.terms:
            self._use(WorkflowFilter())
        else:
            return False
        return True

    def neighbour(self, step: int) -> str | None:
        index = self._table.cursor_index + step
        if not 0 <= index < len(self._table.rows):
            return None
        self._table.move_to(index)
        return self._table.cursor_id

    def take_focus(self) -> None:
        if not self._filter_bar.editing:
            self._table.focus()

    def refresh_now(self) -> None:
        self._workflows_feed.refresh()

    def times_changed(self) -> None:
        self._show()

    def filter_by(self, text: str) -> None:
        """Show the matching workflows; an invalid filter is opened for editing at the error."""
        try:
            self._use(parse_workflows(text))
        except FilterError:
            self._filter_bar.edit(text)
            self._filter_bar.action_apply()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a filter is typed its keys are letters. Resume is offered for paused workflows, pause for running."""
        if action == "verb":
            return parameters[0] not in self._unfit
        return not (action == "filter" and self._filter_bar.editing)

    def action_filter(self) -> None:
        self._filter_bar.edit()

    def frozen_changed(self) -> None:
        self._show()

    def action_states(self) -> None:
        def chosen(wanted: frozenset[str] | None) -> None:
            if wanted is not None:
                self._use(of_flow_states(self._filter, wanted))

        self.console.push_sheet(flow_states_menu(self._filter, self._snapshot, self._glyphs), chosen)

    def action_copy(self) -> None:
        if self._table.cursor_id is not None:
            copy(self, self._table.cursor_id, self._table.cursor_id)

    # Messages from widgets.

    @on(FilterBar.Closed)
    def _filter_closed(self, message: FilterBar.Closed) -> None:
        self.take_focus()
        if isinstance(message.filter, WorkflowFilter):
            self._use(message.filter)

    @on(CountsLine.StateChosen)
    def _toggle_state(self, message: CountsLine.StateChosen) -> None:
        any_state = states(self._filter) == WORKFLOWS.every_state
        wanted = {message.state} if any_state else flow_states_on(self._filter) ^ {message.state}
        self._use(of_flow_states(self._filter, frozenset(wanted)))

    @on(RowTable.NearEdge)
    def _load_more(self, message: RowTable.NearEdge) -> None:
        message.stop()
        if message.which == "end":
            self._workflows_feed.more()

    @on(RowTable.MarksChanged)
    def _count_marks(self, message: RowTable.MarksChanged) -> None:
        message.stop()
        marks = len(message.marks)
        self.console.note(f"{self._glyphs.mark} {number(marks)} marked" if marks else "")
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
        """Use another filter. Marks are cleared: verbs must not act on rows that are no longer visible."""
        self._filter = wanted
        self._table.action_clear_marks()
        self._land = True
        self._filter_bar.show(wanted.text)
        if self.feed is not None:
            self._workflows_feed.ask(wanted)

    def _show(self) -> None:
        snapshot, link = self._snapshot, self.console.link
        empty = empty_flows(snapshot, USUAL_FILTER, link.status, link.clock.now())
        self._table.show(snapshot.rows, now=self.now, stick=self._follow, empty=empty)
        if self._land and not snapshot.loading and snapshot.filter_text == self._filter.text:
            self._land = False
            self._table.move_to(0)
        self._offer_verbs()
        up = link.status.is_up and snapshot.error is None
        self._counts.show(flow_tally(snapshot, zone_of(utc=self.console.utc), frozen=self.frozen_at is not None, up=up))

    def _offer_verbs(self) -> None:
        chosen = self._table.marks or {self._table.cursor_id}
        statuses = [row.status for row in self._table.rows if row.id in chosen]
        # Marks stay on rows that are no longer loaded; their states are unknown.
        unfit = unfit_verbs(statuses) if len(statuses) == len(chosen) else frozenset()
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
