"""The base of every screen's view, and what the application offers to a view.

A screen is one subclass of ConsoleView:

    class TasksView(ConsoleView):
        BINDINGS = bindings(Scope.TASKS, Scope.VERBS)      # keys live in actions.py; `tasks.filter` calls action_filter

        def compose(self): ...
        def create_feed(self, link, publish): return TaskFeed(link, publish)
        def draw(self, snapshot): self.query_one(RowTable).show(snapshot.rows, now=snapshot.now, ...)
        def selection(self): return Selection.of_ids(...)   # what the verbs act on

The recovery view makes no feed: the application has one RecoveryFeed, for the header too, and publishes it to that
view, and to the overview besides its own feed's snapshots.
The feed is made for each link, started when the view is shown, stopped when it is hidden. `publish` may be called any
number of times between two frames: only the newest snapshot is drawn. `self.console` is what the application offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar, cast

from textual import on
from textual.message import Message
from textual.widget import Widget

from horsies_tui.intents import Intent

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual.screen import ModalScreen

    from horsies.operations.selection import Selection
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import Link
    from horsies_tui.feed.report import RecoveryFeed
    from horsies_tui.options import ConsoleOptions

SnapshotT = TypeVar("SnapshotT")
ResultT = TypeVar("ResultT")


class Feed(Protocol):
    """What a view asks of its feed; the rest is between the two of them."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def freeze(self, on: bool) -> None: ...


class Console(Protocol):
    """What a view may ask of the application. ConsoleApp is one; a ten-line App in a test is another."""

    options: ConsoleOptions
    link: Link
    desk: RecoveryFeed
    """Read for the header all the time; `desk.refresh()` after an action."""
    utc: bool
    """Absolute times in UTC, or in this machine's zone. `ConsoleView.times_changed` is called when it changes."""

    def say(self, text: str) -> None:
        """A line for the operator, instead of the footer for some seconds: `copied 2 kB`."""

    def say_error(self, text: str) -> None:
        """The same for what went wrong: one line that ends with the next step. `!` lists the last ones."""

    def note(self, text: str) -> None:
        """What stands before the footer's keys until it is changed: `● 2 marked`. Empty: nothing."""

    def open_task(self, task_id: str) -> None:
        """The task's detail, above the view that is shown. `esc` comes back to it."""

    def neighbour(self, step: int) -> str | None:
        """The id `step` rows below (above: negative) the cursor of the list under the detail; moves that cursor."""

    def show_tasks(self, filter_text: str) -> None:
        """The task list, with this filter."""

    def show_workflow(self, workflow_id: str, index: int | None = None) -> None:
        """The workflow's graph, above the view that is shown, with the cursor on this node. `esc` comes back to it."""

    def show_workers(self, filter_text: str) -> None:
        """The workers, with this filter."""

    def show_recovery(self) -> None:
        """The recovery desk."""

    def push_sheet(self, sheet: ModalScreen[ResultT], done: Callable[[ResultT | None], None]) -> None:
        """Open a sheet above everything; the view below is busy until `done` has its result (None: closed)."""

    def why_no_writes(self) -> str | None:
        """Why verbs do nothing now, in words (`read-only: …`), or None."""

    def offers(self, action: Action) -> bool:
        """Whether the key of this action would do something now."""

    def act(self, verb: str, view: ConsoleView[object]) -> None:
        """Begin a verb on `view.selection()`: preview, sheet, outcome."""


class ConsoleView(Widget, Generic[SnapshotT]):
    """A screen of the console: composes widgets, owns a feed, routes between the two."""

    DEFAULT_CSS = "ConsoleView { height: 1fr; layout: vertical; }"

    # Clicking beside a widget must not leave the keys of this view without a focus.
    can_focus = True

    TITLE: ClassVar[str] = ""

    @dataclass
    class Arrived(Message, bubble=False):
        """The feed read something."""

        view: ConsoleView[object]
        snapshot: object

        @property
        def control(self) -> ConsoleView[object]:
            return self.view

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ConsoleView.Arrived) and type(message.snapshot) is type(self.snapshot)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.feed: Feed | None = None
        self.shown = False
        self.frozen_at: datetime | None = None
        """Since then this view, and no other, shows nothing new; `p` ends it, leaving the view does not."""

    @property
    def console(self) -> Console:
        return cast("Console", self.app)

    @property
    def now(self) -> datetime:
        """The moment that ages are counted to: it stands still while the view is frozen."""
        return self.frozen_at or self.console.link.clock.now()

    # What a screen fills in.

    def create_feed(self, link: Link, publish: Callable[[SnapshotT], None]) -> Feed | None:
        """The feed of this view, for this link."""
        return None

    def draw(self, snapshot: SnapshotT) -> None:
        """Hand a snapshot to the widgets. Never reads, never waits."""

    def selection(self) -> Selection | None:
        """What verbs act on: the marks, else the cursor, else nothing."""
        return None

    def intent(self, verb: str) -> Intent | None:
        """What the verb is meant for, by the engine's word (`retry-now`); None where that is nothing, which is said."""
        selection = self.selection()
        if selection is None:
            self.console.say(f"{verb}: no task is chosen; an arrow key chooses one")
            return None
        return Intent(verb, selection=selection)

    def fits(self, action: Action) -> bool:
        """Whether this key would do something to what is chosen now: the footer offers no other."""
        return True

    def acted(self) -> None:
        """An operation that began here has ended: its marks have had their use."""
        self.refresh_now()

    def busy(self, busy: bool) -> None:
        """A sheet opened or closed above this view: rows must not move under it."""

    def leave(self) -> bool:
        """`esc`: close what is open inside the view. True where there was something."""
        return False

    def neighbour(self, step: int) -> str | None:
        """Move the cursor so many rows down (up: negative) and tell the id there; None where there is no such row."""
        return None

    def take_focus(self) -> None:
        """Focus the widget that takes the keys of this view."""
        self.focus()

    def refresh_now(self) -> None:
        """`ctrl+r`: read again at once."""

    def times_changed(self) -> None:
        """The operator switched between UTC and local time."""

    def frozen_changed(self) -> None:
        """The view was frozen, or goes on."""

    # What the application calls.

    def attach(self, link: Link) -> None:
        """Read from this link from now on."""
        if self.feed is not None:
            self.feed.stop()
        self.frozen_at = None
        self.feed = self.create_feed(link, self.publish)
        if self.feed is not None and self.shown:
            self.feed.start()

    def show(self) -> None:
        self.shown = True
        if self.feed is not None:
            self.feed.start()
        self.take_focus()

    def hide(self) -> None:
        self.shown = False
        if self.feed is not None:
            self.feed.stop()

    def freeze(self, on: bool) -> None:
        """Let it stand as it is, or go on."""
        self.frozen_at = self.console.link.clock.now() if on else None
        if self.feed is not None:
            self.feed.freeze(on)
        self.frozen_changed()

    def on_unmount(self) -> None:
        self.hide()

    def publish(self, snapshot: SnapshotT) -> None:
        """What a feed is given to hand over its snapshots."""
        self.post_message(self.Arrived(cast("ConsoleView[object]", self), snapshot))

    def action_verb(self, verb: str) -> None:
        self.console.act(verb, cast("ConsoleView[object]", self))

    @on(Arrived)
    def _draw_what_arrived(self, message: Arrived) -> None:
        message.stop()
        if message.snapshot is not None:
            self.draw(cast("SnapshotT", message.snapshot))
