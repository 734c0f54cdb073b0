"""The task list without its keys: what it requests from the feed, and how it shows the snapshots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from textual import on
from textual.message import Message

from horsies.views import Sort
from horsies_tui.feed.status import LinkState
from horsies_tui.feed.values import KnownValues
from horsies_tui.look.clock import zone_of
from horsies_tui.look.glyphs import glyphs
from horsies_tui.tasks.feed import TaskFeed
from horsies_tui.tasks.groups import GroupList
from horsies_tui.tasks.snapshot import TaskNeed, TaskSnapshot
from horsies_tui.tasks.table import TaskTable
from horsies_tui.tasks.window import ASCENDING
from horsies_tui.tasks.words import empty_words, no_groups_words, tally
from horsies_tui.view import ConsoleView
from horsies_tui.widgets.counts_line import CountsLine
from horsies_tui.widgets.filter_bar import FilterBar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from textual.app import ComposeResult

    from horsies_tui.feed.link import Link
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.widgets.row_table import Edge

_TICK_S: Final = 0.125
"""Each age changes at its own moment. All at once are 5 kB, which delay a key by 150 ms on a link of 30 kB/s."""


class TaskList(ConsoleView[TaskSnapshot]):
    """Follows new tasks while the cursor is on the first row; once it has left that row, no row moves by itself."""

    DEFAULT_CSS = """
    TaskList {
        & > GroupList { display: none; }
        &.-grouped > GroupList { display: block; }
        &.-grouped > TaskTable { display: none; }
    }
    """

    @dataclass
    class ValuesRead(Message, bubble=False):
        """Suggestions for the filter were read."""

        values: Mapping[str, Sequence[str]]

    @dataclass
    class LinkChanged(Message, bubble=False):
        """The link's status changed. A message, since the link outlives the widgets and must not draw into them."""

        status: LinkStatus

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TaskList.LinkChanged)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._need = TaskNeed()
        self._snapshot = TaskSnapshot()
        self._values: KnownValues | None = None
        self._status_ends: Callable[[], None] | None = None
        self._land: Edge | None = None
        """Where the cursor goes when the requested rows have arrived."""

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

    def on_unmount(self) -> None:
        if self.feed is not None:
            self.feed.stop()
        self._let_go()

    def create_feed(self, link: Link, publish: Callable[[TaskSnapshot], None]) -> TaskFeed:
        self._let_go()
        self._values = KnownValues(link, lambda values: cast("None", self.post_message(self.ValuesRead(values))))
        self._status_ends = link.on_status(lambda status: cast("None", self.post_message(self.LinkChanged(status))))
        feed = TaskFeed(link, publish)
        feed.ask(self._need)
        return feed

    def draw(self, snapshot: TaskSnapshot) -> None:
        self._snapshot = snapshot
        self._show_all()
        # An older snapshot may still arrive after a new request: only the feed's latest one counts.
        if self._land is not None and snapshot is self._task_feed.snapshot and not snapshot.loading:
            self._table.move_to(0 if self._land == "start" else len(snapshot.rows) - 1)
            self._land = None

    def take_focus(self) -> None:
        if not self._filter_bar.editing:
            (self._table if self._need.group_by is None else self._groups).focus()

    def refresh_now(self) -> None:
        self._task_feed.refresh()

    def times_changed(self) -> None:
        self._show_all()

    def frozen_changed(self) -> None:
        self._follow_at_top()
        self._show_all()

    # Requests to the feed.

    @property
    def _task_feed(self) -> TaskFeed:
        return cast("TaskFeed", self.feed)

    def _ask(self, **changes: Any) -> None:
        """Change a part of the need; the chosen rows stay chosen."""
        before, self._need = self._need, replace(self._need, **changes)
        if (self._need.filter, self._need.sort) != (before.filter, before.sort):
            self._land = "start"
        if self.feed is not None:
            self._task_feed.ask(self._need)
        grouped = self._need.group_by is not None
        if grouped is not self.has_class("-grouped"):
            self.set_class(grouped, "-grouped")
            self.take_focus()
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
        beyond = self._snapshot.held or not (self._snapshot.at_start if which == "start" else self._snapshot.at_end)
        if beyond:
            self._land = which
            self._task_feed.jump("newest" if (which == "start") is not ascending else "oldest")

    def _jump(self, moment: datetime) -> None:
        self._ask(follow=False, group_by=None)
        self._land = "start"
        self._task_feed.jump(moment)

    # Drawing of snapshots.

    def _show_all(self) -> None:
        snapshot, link = self._snapshot, self.console.link
        now = self.now
        stick = self._need.follow
        empty = empty_words(snapshot, link.status, link.clock.now())
        self._table.show(snapshot.rows, now=now, struck=snapshot.struck, stick=stick, empty=empty)
        if self._need.group_by is not None:
            words = no_groups_words(snapshot, self._need.group_by)
            self._groups.show_groups(snapshot.groups, self._need.group_by, now=now, empty=words)
        zone, up = zone_of(utc=self.console.utc), link.status.is_up and snapshot.error is None
        self._counts.show(tally(snapshot, self._need, self._glyphs, zone, frozen=self.frozen_at is not None, up=up))

    def _tick(self) -> None:
        status = self.console.link.status
        if self.shown and status.is_up:
            self._table.tick(self.now)
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

    def _let_go(self) -> None:
        if self._values is not None:
            self._values.stop()
        if self._status_ends is not None:
            self._status_ends()
