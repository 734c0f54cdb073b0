"""The workers screen without its keys: what it requests from the feed, and how it shows the snapshots."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from horsies.display.exporting import workers_export
from horsies.query import WorkerFilter, parse_workers
from horsies.query.other_keys import WORKERS
from horsies.views.row_filter import matching
from horsies_tui.actions import key_for
from horsies_tui.feed.status import not_connected
from horsies_tui.health.windows import fitting
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import number, zone_of
from horsies_tui.widgets.chips_line import ChipsLine
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import FilteredView, capped, in_steps, set_height
from horsies_tui.widgets.steady_order import SteadyOrder
from horsies_tui.workers.columns import HELD_COLUMNS, HOST_COLUMNS, WORKER_COLUMNS
from horsies_tui.workers.feed import WorkersFeed, WorkersNeed, WorkersSnapshot
from horsies_tui.workers.order import SORT_WORDS, HostRow, WorkerSort, by_host, in_order
from horsies_tui.workers.story import WorkerPoints, WorkerStory
from horsies_tui.workers.worker_texts import capacity, summary

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from horsies.display.exporting import Export
    from horsies.views import WorkerRow
    from horsies_tui.feed.link import DatabaseLink

_HELD_TICK_S: Final = 5.0
"""Ages of tasks in the second list need not tick: three per row and second are 400 bytes."""
_LOW: Final = 30
"""A screen with fewer lines is a low one."""
_STORY, _HELD = 10, 8
"""The least numbers of lines of the two lower parts."""
_LEAST_LIST: Final = 8
_MOST_HELD: Final = 1 / 4
"""The largest share of the screen of the tasks that a worker holds."""
PLACEHOLDER: Final = f"filter, for example {WORKERS.example}"


class WorkerList(FilteredView[WorkersSnapshot]):
    """The list with the worker under the cursor below it; `-opened`: that worker alone; `-grouped`: hosts instead."""

    DEFAULT_CSS = """
    WorkerList {
        & > #hosts { display: none; }
        &.-grouped > #hosts { display: block; }
        &.-grouped > #rows { display: none; }
        &.-grouped > #story, &.-grouped > #held { display: none; }
        &.-empty > #story, &.-empty > #held { display: none; }
        &.-low > #story { height: 6; }
        &.-low > #held { height: 4; }
        &.-opened > #line, &.-opened > #filter, &.-opened > #rows { display: none; }
        &.-opened > #story { height: 2fr; }
        &.-opened > #held { height: 1fr; }
        &.-old > RowTable { text-style: dim; }
    }
    """

    _table: RowTable[WorkerRow]
    _sort: WorkerSort

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._need = WorkersNeed()
        self._snapshot = WorkersSnapshot()
        self._filter = WorkerFilter()
        self._sort = WorkerSort.TROUBLE
        self._grouped = False
        self._opened: WorkerRow | None = None
        """The opened worker as it was read last; the list may no longer have it."""
        self._shown: tuple[WorkerRow, ...] = ()
        self._shown_filter = self._filter
        self._struck: frozenset[str] = frozenset()
        """Workers that no longer match and stay in the list because the cursor is on them."""
        self._held_at: datetime | None = None
        self._order = SteadyOrder()
        self._busy = False
        self._window_chosen = False

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(read=parse_workers, placeholder=PLACEHOLDER, id="filter")
        self._filter_bar.named = lambda: self.console.options.settings.filters_of("workers")
        self._line = ChipsLine(self._glyphs, id="line")
        self._table = RowTable(WORKER_COLUMNS, glyphs=self._glyphs, id="rows")
        self._hosts: RowTable[HostRow] = RowTable(HOST_COLUMNS, glyphs=self._glyphs, id="hosts")
        self._story = WorkerStory(self._glyphs, id="story")
        self._held = RowTable(HELD_COLUMNS, glyphs=self._glyphs, beside=True, id="held")
        yield from (self._filter_bar, self._line, self._table, self._hosts, self._story, self._held)

    def on_mount(self) -> None:
        self._show_order()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < _LOW, "-low")
        self._arrange_parts()

    def create_feed(self, link: DatabaseLink, publish: Callable[[WorkersSnapshot], None]) -> WorkersFeed:
        feed = WorkersFeed(link, publish)
        feed.ask(self._need)
        return feed

    @property
    def _workers_feed(self) -> WorkersFeed:
        return cast("WorkersFeed", self.feed)

    def draw(self, snapshot: WorkersSnapshot) -> None:
        self._snapshot = snapshot
        self._filter_bar.learn(_values(snapshot.rows))
        self._show_all()

    @property
    def _lists(self) -> tuple[RowTable[Any], ...]:
        return (self._table, self._hosts, self._held)

    @property
    def _focused(self) -> Widget:
        return self._held if self._opened is not None else self._hosts if self._grouped else self._table

    def refresh_now(self) -> None:
        self._order.renew()
        self._workers_feed.refresh()

    def export(self) -> Export[WorkerRow]:
        return workers_export(self._matching, self._now)

    def times_changed(self) -> None:
        self._show_one()

    def busy(self, busy: bool) -> None:
        self._busy = busy

    # Requests to the feed.

    def _ask(self, **changes: object) -> None:
        need = replace(self._need, **changes)  # type: ignore[arg-type]
        if need != self._need:
            self._need = need
            if self.feed is not None:
                self._workers_feed.ask(need)

    def _look_at(self, row: WorkerRow | None) -> None:
        self._ask(selected=None if row is None else row.id)
        self._show_one()

    # Drawing of snapshots.

    def _show_all(self) -> None:
        """Show the list, sorted and filtered."""
        snapshot = self._snapshot
        now = self._now
        self._shown = self._arranged(self._wanted(now))
        self._table.show(self._shown, now=now, struck=self._struck, empty=self._empty())
        self._table.marks &= {row.id for row in self._shown}
        if self._grouped:
            self._hosts.show(by_host(self._matching), now=now, empty=self._empty())
        self.set_class(not self._shown and self._opened is None, "-empty")
        self.set_class(snapshot.error is not None, "-old")
        self._summarise()
        self._arrange_parts()
        if self._opened is not None:
            self._opened = next((row for row in snapshot.rows if row.id == self._opened.id), self._opened)
        self._fit_window()
        self._look_at(self._looked_at)

    def _wanted(self, now: datetime) -> list[WorkerRow]:
        """The workers that match, and the one under the cursor, so that the next key does not act on another worker."""
        found = matching(self._filter, self._snapshot.rows, now)
        here = self._table.cursor_id if self._filter == self._shown_filter and not self._grouped else None
        left = [row for row in self._snapshot.rows if row.id == here and row not in found]
        self._shown_filter, self._struck = self._filter, frozenset(row.id for row in left)
        return found + left

    @property
    def _matching(self) -> list[WorkerRow]:
        return [row for row in self._shown if row.id not in self._struck]

    def _arrange_parts(self) -> None:
        """A short list leaves its lines to the worker under the cursor and to its tasks."""
        story: int | None = None
        held: int | None = None
        if not (self.has_class("-low") or self._grouped or self._opened is not None):
            lines = max(in_steps(len(self._shown) + 1), _LEAST_LIST)
            room = self.size.height - 2  # the filter and the summary
            # As many lines as the busiest worker needs: they stay when the cursor goes to another one.
            most = max((row.in_flight for row in self._shown), default=0)
            held = min(max(in_steps(most + 1), _HELD), max(int(room * _MOST_HELD), _HELD))
            story = max(room - lines - held, _STORY)
        set_height(self._story, story)
        set_height(self._held, held)

    @property
    def _now(self) -> datetime:
        return capped(self.now, self._snapshot.read_at)

    @property
    def _looked_at(self) -> WorkerRow | None:
        return self._opened or self._table.cursor_row

    def _arranged(self, rows: list[WorkerRow]) -> tuple[WorkerRow, ...]:
        """Sorted only while the operator is idle, and by values that always change only every few seconds."""
        moment = self.console.link.clock.monotonic()
        busy = self._busy or bool(self._table.marks)
        order = partial(in_order, sort=self._sort)
        return self._order.arranged(rows, self._shown, order, moment, busy=busy, moves=self._sort.moves)

    def _summarise(self) -> None:
        rows = self._matching
        words = []
        if self._filter.terms and self._snapshot.read_at is not None:
            words.append(f"{number(len(rows))} of {number(len(self._snapshot.rows))} match")
        words += [capacity(rows)] if capacity(rows) else []
        if self.frozen_at is not None:
            words.insert(0, "FROZEN")
        if self._sort is not WorkerSort.TROUBLE:
            words.append(SORT_WORDS[self._sort])
        if self._snapshot.everyone:
            words.append("older ones too")
        self._line.show(summary(rows, self._glyphs) if rows else (), words)

    def _fit_window(self) -> None:
        """Choose, until the operator does, a window that the oldest worker's past fills."""
        told = [row.snapshot for row in self._snapshot.rows if row.snapshot is not None]
        if told and not self._window_chosen:
            self._ask(window=fitting(self._now - min(one.started_at for one in told)))

    def _show_one(self) -> None:
        row, one = self._looked_at, self._snapshot.one
        if row is None:
            self._story.show(None)
            return
        now = self._now
        known = one if one is not None and one.id == row.id else None
        points = known.points if known is not None and known.window == self._need.window else None
        zone = zone_of(utc=self.console.utc)
        recover = key_for("workers.recover", self.screen, self._glyphs)
        self._story.show(WorkerPoints(row, points, self._need.window.name, now, zone, recover))
        held = () if known is None else known.tasks
        at_once = self._opened is not None or held != self._held.rows
        if self._held_at is None or at_once or (now - self._held_at).total_seconds() >= _HELD_TICK_S:
            self._held_at = now
        replayed = self.console.link.playback is not None
        unread = "Its tasks were not recorded." if replayed else "Reading its tasks…"
        empty = unread if known is None else "It holds no task."
        self._held.show(held, now=self._held_at, empty=empty)
        self._held.marks &= {task.id for task in held}

    def _empty(self) -> str:
        """Shown in place of rows: why there are none, and the next step."""
        snapshot, status = self._snapshot, self.console.link.status
        if snapshot.read_at is None:
            if not status.is_up:
                return not_connected(status, self.console.link.clock.now())
            return f"Nothing to show:\n{snapshot.error}" if snapshot.error else "Reading…"
        if self._filter.terms:
            return f"No worker of {number(len(snapshot.rows))} matches. esc clears the filter."
        if snapshot.everyone:
            return "No worker has stored a snapshot here yet.\nhorsies worker MODULE:APP starts one."
        return (
            "No worker was alive in the last hour, so waiting tasks do not run.\n"
            "horsies worker MODULE:APP starts one; w shows older ones."
        )

    def tick(self) -> None:
        if self.shown and (self.console.link.status.is_up or self._snapshot.read_at is None):
            now = self._now
            if self._snapshot.read_at is None:
                self._show_all()
            self._table.tick(now)
            self._hosts.tick(now)
            self._show_one()


def _values(rows: tuple[WorkerRow, ...]) -> dict[str, list[str]]:
    """Suggestions for the filter."""
    told = [row.snapshot for row in rows if row.snapshot is not None]
    return {
        "host": sorted({one.hostname for one in told}),
        "queue": sorted({queue for one in told for queue in one.queues}),
        "version": sorted({one.version for one in told if one.version}),
        "app": sorted({one.app_version for one in told if one.app_version}),
        "id": [row.id for row in rows],
    }
