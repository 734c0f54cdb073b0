"""A list with the story of its selected row, side by side on a wide terminal, below the list on a high one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual import on
from textual.containers import Container
from textual.message import Message

from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.view import SnapshotT
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import LIST_STEP, RowsView, in_steps, set_height

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual import events
    from textual.binding import BindingType
    from textual.timer import Timer
    from textual.widget import Widget

    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.story.companion import Companion

WIDE: Final = 160
"""Least terminal width at which the story is shown beside the list."""
HIGH: Final = 50
"""Least terminal height at which the story is shown below the list, if the terminal is narrower than WIDE."""
REST_S: Final = 0.12
"""How long the cursor must rest on a row before its story is read. A key that is held repeats every 30 ms."""


class Subject(NamedTuple):
    """The row whose story is shown; `kind` is a key of the pane's stories."""

    kind: str
    id: str


class StoryPane(Container):
    """The stories of one list, one of which is shown. Each is created when the cursor first rests on such a row."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("detail.previous_row", "detail.next_row")]
    DEFAULT_CSS = """
    StoryPane { height: 1fr; display: none; }
    """

    @dataclass
    class Step(Message):
        """Asks the list to move its cursor by this many rows."""

        rows: int

    def __init__(self, stories: Mapping[str, Callable[[], type[Companion[Any]]]], *, id: str) -> None:  # noqa: A002 - textual's name
        """Create a pane. Each of `stories` imports its class when needed; that takes a tenth of the start-up time."""
        super().__init__(id=id)
        self._makers = stories
        self._stories: dict[str, Companion[Any]] = {}
        self._link: DatabaseLink | None = None
        self._subject: Subject | None = None
        self._runs = self._frozen = False
        self._rest: Timer | None = None

    @property
    def story(self) -> Companion[Any] | None:
        """Return the story that is shown."""
        return None if self._subject is None else self._stories.get(self._subject.kind)

    @property
    def is_read(self) -> bool:
        """True unless the story of the selected row is still to be read and shown."""
        feed: Any = None if self.story is None else self.story.feed
        waits = self._rest is not None or (self._subject is not None and (feed is None or feed.snapshot.loading))
        return not (self._runs and waits)

    def beside(self, *lists: Widget) -> Container:
        """Return a container of these lists and the pane, which share the height or the width."""
        return Container(*lists, self, id="list-and-story")

    def attach(self, link: DatabaseLink) -> None:
        self._link = link
        for story in self._stories.values():
            story.attach(link)

    def look_at(self, subject: Subject | None) -> None:
        """Show this row's story once the cursor rests on it, or no story for None."""
        if subject == self._subject:
            return
        if self.story is not None:
            self.story.pause()
        self._subject = subject
        if self._runs:
            self._begin_rest()

    def run(self, on: bool) -> None:
        """Start or stop reading stories; they are stopped while the list is hidden or its story is switched off."""
        if on is self._runs:
            return
        self._runs = on
        if on:
            self._begin_rest()
            return
        self._end_rest()
        for story in self._stories.values():
            story.hide()

    def freeze(self, on: bool) -> None:
        self._frozen = on
        for story in self._stories.values():
            story.freeze(on)

    def refresh_now(self) -> None:
        if self._runs and self.story is not None:
            self.story.refresh_now()

    def times_changed(self) -> None:
        if self.story is not None:
            self.story.times_changed()

    def action_previous_row(self) -> None:
        self.post_message(self.Step(-1))

    def action_next_row(self) -> None:
        self.post_message(self.Step(1))

    def on_unmount(self) -> None:
        self.run(False)

    def _begin_rest(self) -> None:
        self._end_rest()
        self._rest = self.set_timer(REST_S, self._rested)

    def _end_rest(self) -> None:
        if self._rest is not None:
            self._rest.stop()
            self._rest = None

    async def _rested(self) -> None:
        """Read the story of the row on which the cursor rests."""
        self._end_rest()
        subject, link = self._subject, self._link
        if subject is not None and subject.kind not in self._stories and link is not None:
            made = self._makers[subject.kind]()(id=subject.kind)
            await self.mount(made)
            if not made.is_mounted:
                return  # the console closes
            self._stories[subject.kind] = made
            made.attach(link)
            if self._frozen:
                made.freeze(True)
        for kind, story in self._stories.items():
            chosen = subject is not None and kind == subject.kind
            story.display = chosen
            if chosen and not story.shown and self._runs:
                story.resume()
            elif not chosen and story.shown:
                story.hide()
        # The cursor may have moved while the story was mounted; another timer is running then.
        if subject is not None and subject == self._subject and self._runs:
            self._stories[subject.kind].look_at(subject.id)


class WithStory(RowsView[SnapshotT]):
    """A list screen with a story, `_pane` in `#list-and-story`. The list keeps the focus, and verbs act on its rows."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.BESIDE)]
    DEFAULT_CSS = """
    WithStory {
        & #list-and-story { height: 1fr; layout: vertical; }
        &.-story-below StoryPane { display: block; border-top: solid $border; }
        &.-story-beside #list-and-story { layout: horizontal; }
        &.-story-beside #list-and-story > * { width: 1fr; }
        &.-story-beside StoryPane { display: block; border-left: solid $border; }
    }
    .-ascii WithStory {
        &.-story-below StoryPane { border-top: ascii $border; }
        &.-story-beside StoryPane { border-left: ascii $border; }
    }
    """

    _pane: StoryPane

    subject: Callable[[], Subject | None]
    """Returns the row under the cursor; None if it has no story."""

    # Called by the application.

    def attach(self, link: DatabaseLink) -> None:
        super().attach(link)
        self._pane.attach(link)

    def resume(self) -> None:
        super().resume()
        self._place_story()

    def hide(self) -> None:
        super().hide()
        self._pane.run(False)

    def freeze(self, on: bool) -> None:
        super().freeze(on)
        self._pane.freeze(on)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("into_story", "story_up", "story_down"):
            return self._has_story
        return super().check_action(action, parameters)

    # Keys.

    def action_story(self) -> None:
        self.console.stories = not self.console.stories
        if not (self._is_wide or self._is_high):
            room = f"from {WIDE} columns, or below it from {HIGH} lines"
            self.console.say(f"enter opens the story; it is shown beside the list {room}")
        elif not self.console.stories:
            self.console.say("story hidden; to keep it hidden, set `story = false` in the config file")
        self._place_story()

    def action_into_story(self) -> None:
        if self._pane.story is not None:
            self._pane.story.take_focus()

    def action_story_up(self) -> None:
        self._scroll(-1)

    def action_story_down(self) -> None:
        self._scroll(1)

    def on_resize(self, event: events.Resize) -> None:
        self._place_story()

    @on(RowTable.CursorMoved)
    def _look_at_row(self) -> None:
        self._follow_row()
        self._share_height()

    @on(StoryPane.Step)
    def _step_list(self, message: StoryPane.Step) -> None:
        message.stop()
        if self._table.neighbour(message.rows) is None:
            self.console.say(f"this is the {'last' if message.rows > 0 else 'first'} row of the list")

    def _follow_row(self) -> None:
        """Show the story of the cursor's row. The story of a removed row stays until a key moves the cursor."""
        if self._table.cursor_id is not None or not self._table.rows:
            self._pane.look_at(self.subject())

    def _leave_story(self) -> bool:
        """Move the focus from the story back to the list, on `esc`."""
        if not self._pane.has_focus_within:
            return False
        if self._pane.story is None or not self._pane.story.leave():
            self.take_focus()
        return True

    @property
    def _is_wide(self) -> bool:
        return self.app.size.width >= WIDE

    @property
    def _is_high(self) -> bool:
        return self.app.size.height >= HIGH

    @property
    def _has_story(self) -> bool:
        return self.has_class("-story-beside") or self.has_class("-story-below")

    def _story_fits(self) -> bool:
        """Return whether the list now shows rows that have stories."""
        return True

    def _place_story(self) -> None:
        wanted = self.console.stories and self._story_fits()
        self.set_class(wanted and self._is_wide, "-story-beside")
        self.set_class(wanted and self._is_high and not self._is_wide, "-story-below")
        shown = wanted and (self._is_wide or self._is_high)
        if not shown and self._pane.has_focus_within:
            self.take_focus()
        self._follow_row()
        self._share_height()
        self._pane.run(shown and self.shown)
        self.refresh_bindings()

    def _share_height(self) -> None:
        """Divide the height between the list and the story, which gets more than half below a short list."""
        height = None
        if self.has_class("-story-below"):
            height = min(max(in_steps(len(self._table.rows) + 1), 2 * LIST_STEP), self.app.size.height // 2)
        set_height(self._table, height)

    def _scroll(self, pages: int) -> None:
        """Scroll the story and its cursor by half of its height."""
        from horsies_tui.story.view import StoryView

        story = None if self._pane.story is None else self._pane.story.query_one(StoryView)
        if story is not None:
            story.scroll_half(pages)
