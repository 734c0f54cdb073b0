"""The base class of every screen's view, and the services that the application offers to a view.

A screen is one subclass of ConsoleView; one that is a list, of RowsView or FilteredView (widgets/rows_view.py):

    class TasksView(FilteredView):
        BINDINGS = bindings(Scope.TASKS, Scope.VERBS)      # keys are in actions.py; `tasks.sort` calls action_sort

        def compose(self): ...                              # self._filter_bar, self._table
        def create_feed(self, link, publish): return TaskFeed(link, publish)
        def draw(self, snapshot): self._table.show(snapshot.rows, now=self.now, ...)
        def selection(self): return Selection.of_ids(self._table.chosen_ids)   # what the verbs act on

The recovery view creates no feed: the application has one RecoveryFeed, which also serves the header, and publishes its
snapshots to the recovery view and to the overview (in addition to the overview's own feed).

A feed is created for each link, started when the view is shown and stopped when it is hidden. `publish` may be called
any number of times between two frames: only the newest snapshot is drawn. `self.console` is the application.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from textual import on
from textual.message import Message
from textual.widget import Widget

from horsies.operations.verbs import VERBS
from horsies_tui.feed.status import FeedFailure, sentence_with_place
from horsies_tui.intents import Intent
from horsies_tui.look.damage import report
from horsies_tui.textual_internals import Lasting

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual.screen import ModalScreen

    from horsies.display.exporting import Export
    from horsies.operations.selection import Selection
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.report import RecoveryFeed
    from horsies_tui.settings import ConsoleOptions

SnapshotT = TypeVar("SnapshotT")
ResultT = TypeVar("ResultT")


class ViewFeed(Protocol):
    """The calls that a view makes on its feed; everything else is private to the two."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def freeze(self, on: bool) -> None: ...


class Console(Protocol):
    """The calls that a view makes on the application. ConsoleApp implements it; in tests a ten-line App does."""

    options: ConsoleOptions
    link: DatabaseLink
    recovery: RecoveryFeed
    """Read continuously for the header; call `recovery.refresh()` after an operation."""
    utc: bool
    """Show absolute times in UTC, or in this machine's zone. A change calls `ConsoleView.times_changed`."""
    stories: bool
    """Lists show the story of their row beside or below them, where the terminal has the room."""

    def say(self, text: str, *, offer: str = "") -> None:
        """Show a line in place of the footer's keys for some seconds: `copied 2 kB`.

        `offer` then stands before the keys, for a minute or until the next line.
        """

    def say_error(self, text: str) -> None:
        """The same for an error: one line that ends with the next step. `!` lists the last ones."""

    def note(self, text: str) -> None:
        """Show this text before the footer's keys until it is replaced: `● 2 marked`. Empty: no text."""

    def open_task(self, task_id: str) -> None:
        """Open the task's detail above the current view. `esc` returns to that view."""

    def neighbour(self, step: int) -> str | None:
        """Move the cursor of the list below the detail by `step` rows (negative: up) and return the id there."""

    def show_tasks(self, filter_text: str) -> None:
        """Open the task list with this filter."""

    def show_workflow(self, workflow_id: str, index: int | None = None) -> None:
        """Open the workflow's graph above the current view, with the cursor on this node. `esc` returns."""

    def show_workers(self, filter_text: str) -> None:
        """Open the workers screen with this filter."""

    def show_schedules(self, filter_text: str) -> None:
        """Open the schedules screen with this filter."""

    def show_recovery(self) -> None:
        """Open the recovery screen."""

    def push_sheet(self, sheet: ModalScreen[ResultT], done: Callable[[ResultT | None], None]) -> None:
        """Open a sheet above everything; the view below is busy until `done` gets the result (None: it was closed)."""

    def why_no_writes(self) -> str | None:
        """Return why verbs are refused now (`read-only: …`), or None."""

    def offers(self, action: Action) -> bool:
        """Return whether this action's key would do something now."""

    async def read_outside(self, name: str, text: str, *, pager: bool) -> None:
        """Open this text in the user's editor or pager; returns when that has ended."""

    def act(self, verb: str, view: ConsoleView[object]) -> None:
        """Start a verb on `view.selection()`: preview, sheet, outcome."""


class ConsoleView(Lasting, Widget, Generic[SnapshotT]):
    """A screen of the console: composes widgets, owns a feed, and passes the feed's snapshots to the widgets."""

    DEFAULT_CSS = "ConsoleView { height: 1fr; layout: vertical; }"

    # A click beside a widget must not leave this view without the focus, since its keys would stop working.
    can_focus = True

    TITLE: ClassVar[str] = ""
    CHOOSES_OPERATIONS: ClassVar[bool] = False
    """Undo takes back the operation that is chosen here, not the last one that was done from this console."""

    @dataclass
    class Arrived(Message, bubble=False):
        """The feed published a snapshot."""

        view: ConsoleView[object]
        snapshot: object

        @property
        def control(self) -> ConsoleView[object]:
            return self.view

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ConsoleView.Arrived) and type(message.snapshot) is type(self.snapshot)

    class FirstRows(Message):
        """The message that the first rows are on the screen."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.feed: ViewFeed | None = None
        self.shown = False
        self._drawn = False
        self._failure: FeedFailure | None = None
        """Of the last draw."""
        self.frozen_at: datetime | None = None
        """When this view was frozen, or None. Only `p` ends it; leaving the view does not."""

    @property
    def console(self) -> Console:
        return cast("Console", self.app)

    @property
    def now(self) -> datetime:
        """The time that ages are computed against; it stands still while the view is frozen."""
        return self.frozen_at or self.console.link.clock.now()

    # Overridden by screens.

    def create_feed(self, link: DatabaseLink, publish: Callable[[SnapshotT], None]) -> ViewFeed | None:
        """Create the feed of this view for this link."""
        return None

    def draw(self, snapshot: SnapshotT) -> None:
        """Pass a snapshot to the widgets. Never reads and never waits."""

    def selection(self) -> Selection | None:
        """The targets of verbs: the marked rows, else the row under the cursor, else None."""
        return None

    def intent(self, verb: str) -> Intent | None:
        """The intent for a verb (`retry-now`); None if it has no target, which the footer then reports."""
        selection = self.selection()
        if selection is None:
            self.say_none_chosen(verb, "task")
            return None
        return Intent(VERBS["task", verb], selection)

    def say_none_chosen(self, verb: str, what: str) -> None:
        """Say that a verb has no target, and how to select one."""
        self.console.say(f"{verb}: select a {what} (↑↓)")

    def export(self) -> Export[Any] | None:
        """Return what `export` writes: all rows of the filter; None: this view has none."""
        return None

    def fits(self, action: Action) -> bool:
        """Return whether this action applies to the current selection; the footer offers only those."""
        return True

    def acted(self) -> None:
        """An operation that was started here has ended; subclasses clear their marks."""
        self.refresh_now()

    def busy(self, busy: bool) -> None:
        """A sheet was opened or closed above this view; while it is open, rows must not move."""

    def leave(self) -> bool:
        """`esc`: close what is open inside the view. True if something was closed."""
        return False

    def neighbour(self, step: int) -> str | None:
        """Move the cursor `step` rows down (negative: up) and return the id there; None if there is no such row."""
        return None

    def take_focus(self) -> None:
        """Focus the widget that takes the keys of this view."""
        self.focus()

    def refresh_now(self) -> None:
        """`ctrl+r`: read again at once."""

    def times_changed(self) -> None:
        """The operator switched between UTC and local time."""

    def frozen_changed(self) -> None:
        """The view was frozen or resumed."""

    def tick(self) -> None:
        """Update ages, once a second. Called with the header's clock, so that one frame shows both."""

    # Called by the application.

    def attach(self, link: DatabaseLink) -> None:
        """Read from this link from now on."""
        if self.feed is not None:
            self.feed.stop()
        self.frozen_at = self._failure = None
        self.feed = self.create_feed(link, self.publish)
        if self.feed is not None and self.shown:
            self.feed.start()

    def show(self) -> None:
        self.resume()
        self.take_focus()

    def resume(self) -> None:
        """Read again, without the focus."""
        self.shown = True
        if self.feed is not None:
            self.feed.start()

    def hide(self) -> None:
        self.shown = False
        self._tell_drawn(None)
        if self.feed is not None:
            self.feed.stop()

    def freeze(self, on: bool) -> None:
        """Freeze the view, or resume it."""
        self.frozen_at = self.console.link.clock.now() if on else None
        if self.feed is not None:
            self.feed.freeze(on)
        self.frozen_changed()

    def on_unmount(self) -> None:
        self.hide()

    def publish(self, snapshot: SnapshotT) -> None:
        """Passed to the feed; takes a snapshot from it."""
        self.post_message(self.Arrived(cast("ConsoleView[object]", self), snapshot))

    def _draw_or_report(self, snapshot: SnapshotT) -> bool:
        """Draw the snapshot; if that fails, what was drawn before stays, and the status says since when."""
        try:
            self.draw(snapshot)
        except Exception as error:  # noqa: BLE001 - see look/damage.py
            name, now = self.id or type(self).__name__, self.console.link.clock.now()
            why = f"{report(f'the screen {name}', error)}: {sentence_with_place(error)}"
            self._tell_drawn(FeedFailure(name, why, now if self._failure is None else self._failure.since))
            return False
        self._tell_drawn(None)
        return True

    def _tell_drawn(self, failure: FeedFailure | None) -> None:
        if failure != self._failure:
            self._failure = failure
            self.console.link.freshness.report(self, failure)

    def action_verb(self, verb: str) -> None:
        self.console.act(verb, cast("ConsoleView[object]", self))

    @on(Arrived)
    def _draw_snapshot(self, message: Arrived) -> None:
        message.stop()
        if message.snapshot is not None:
            if not self._draw_or_report(cast("SnapshotT", message.snapshot)):
                return
            if not self._drawn and self.console.link.status.last_data_at is not None:
                self._drawn = True
                self.call_after_refresh(self.post_message, self.FirstRows())
