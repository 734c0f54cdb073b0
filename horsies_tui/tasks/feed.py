"""The feed of the tasks screen: a window of rows that follows the database without moving rows that are being read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from horsies.query import TaskConditions, task_conditions
from horsies.views import (
    BriefArguments,
    Cursor,
    brief_arguments,
    count_parts,
    task_counts,
    task_groups,
    task_page,
    task_statistics,
    usual_durations,
)
from horsies.views.progress import has_progress
from horsies_tui.feed.loop import Feed, FeedRead
from horsies_tui.feed.pace import GRACE_S, USUAL, OperatorIdle, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.feed.tally import Tally
from horsies_tui.look.bars import LIST_EVERY_S
from horsies_tui.tasks.snapshot import PAGE, TaskNeed, TaskSnapshot
from horsies_tui.tasks.window import ASCENDING, RowWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from horsies.store.connect import Connection
    from horsies.views import GroupBy, TaskCounts, TaskGroups, TaskPage, TaskRow, TaskStatistics, Usual
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.health.windows import Window
    from horsies_tui.tasks.window import Slice
    from horsies_tui.widgets.row_table import Edge

_MOST_STRETCHES: Final = 100
"""Most stretches to search for rare matches, two million rows in all; then the operator must continue the search."""
_NO_ARGUMENTS: Final = BriefArguments(None, None)
_RECORDED: Final = ("rows", "struck", "unseen", "more_unseen", "at_start", "at_end", "searched")
_SELDOM_TICKS: Final = 4
"""Number of ticks between two reads of the counts, which may be older than the rows."""
_STATISTICS_TICKS: Final = 20
"""Number of ticks between two reads of statistics, which take 0.2 s for ten million tasks."""
_USUAL_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Load:
    """A request to fetch rows, beyond an edge of the window or in place of its rows, until there are enough."""

    edge: Edge
    start: Cursor | None = None
    resets: bool = False
    keeps: bool = False
    """True if a reset keeps the old rows until new ones arrive, because they also match the filter."""
    origin: Cursor | None = None
    """The place where the search began; `start` moves as the search advances."""
    rows: int = PAGE
    stretches: int = _MOST_STRETCHES


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The result of one refresh of the window: a page, and by id the rows of the window that the page lacks.

    `missing` are the ids of those rows.
    """

    page: TaskPage
    missing: tuple[str, ...]
    matching: tuple[TaskRow, ...]
    others: tuple[TaskRow, ...]

    def put_into(self, window: RowWindow, part: Slice, *, idle: bool) -> None:
        window.refresh(part, self.page)
        window.renew(self.missing, self.matching, self.others)
        if idle:
            window.replace(part, self.page)


class TaskFeed(Feed[TaskSnapshot]):
    """The feed. It publishes a snapshot for each change, and its methods return at once."""

    NAME = "tasks"

    def __init__(self, link: DatabaseLink, publish: Callable[[TaskSnapshot], None], *, rhythm: Rhythm = USUAL) -> None:
        super().__init__(link, publish, TaskSnapshot())
        self._rhythm = rhythm
        self._need = TaskNeed()
        self._conditions = task_conditions(self._need.filter)
        self._window = RowWindow(self._need.sort)
        self._load: _Load | None = _Load("end", resets=True)
        self._load_at = 0.0
        self._background_at = 0.0
        self._around: str | None = None
        self._rest = OperatorIdle(rhythm.settle_s)
        seldom = replace(rhythm, tick_s=_SELDOM_TICKS * rhythm.tick_s)
        rarely = replace(rhythm, poll_s=_USUAL_EVERY_S, reconcile_s=_USUAL_EVERY_S)
        self._rows, self._further, self._groups = (
            ReadPace(replace(rhythm, grace_s=GRACE_S)),
            ReadPace(seldom),
            ReadPace(seldom),
        )
        self._arguments = ReadPace(rhythm)
        self._statistics = ReadPace(replace(rhythm, tick_s=_STATISTICS_TICKS * rhythm.tick_s))
        counts = replace(seldom, grace_s=GRACE_S)
        self._counts: Tally[TaskConditions, TaskCounts] = Tally(counts, count_parts(self._conditions))
        count = self._counting(self._counts, task_counts)
        group = self._query(lambda: (self._conditions, self._need.group_by), _groups, lambda found: {"groups": found})
        statistics = self._query(
            lambda: (self._conditions, self._need.statistics), _named, lambda found: {"statistics": found}
        )
        self._reads = (
            FeedRead("rows", self._read_rows, self._rows, _may_change, due=self._rows_due_at),
            FeedRead("counts", count, self._counts, _may_change),
            FeedRead("above", self._read_above, ReadPace(seldom), _may_change, self._may_have_rows_above),
            FeedRead(
                "further",
                self._read_further,
                self._further,
                _may_change,
                self._may_search_further,
                lambda: self._further.earliest_at,
            ),
            FeedRead("groups", group, self._groups, _may_change, lambda: self._need.group_by is not None),
            FeedRead(
                "statistics", statistics, self._statistics, _may_change, lambda: self._need.statistics is not None
            ),
            FeedRead("usual", self._read_usual, ReadPace(rarely), lambda *_: False, lambda: bool(self._running_names)),
            FeedRead(
                "arguments",
                self._query(self._without_arguments, brief_arguments, self._put_arguments),
                self._arguments,
                _may_change,
                lambda: self._need.arguments and bool(self._without_arguments()),
                lambda: self._arguments.earliest_at,
            ),
        )
        self._shows_new_now = False
        """True if the operator asked for the new rows at the top, which are then shown without waiting for idleness."""
        self._further_from: Cursor | None = None
        """The place where the last refresh stopped within the range searched before; the search continues from it."""
        self._searched_above: tuple[Cursor, Cursor] | None = None
        """The first row, and the place above it up to which no match was found."""

    def ask(self, need: TaskNeed) -> None:
        """Replace the current need by this one."""
        before, self._need = self._need, need
        changes: dict[str, Any] = {"filter_text": need.filter.text, "sort": need.sort, "follow": need.follow}
        if (need.filter, need.sort) != (before.filter, before.sort):
            self._conditions = task_conditions(need.filter)
            self._fetch(_Load("end", resets=True))
            changes |= {"counts": None, "groups": None, "statistics": None}
            self._counts.ask(count_parts(self._conditions))
            self._groups.renew()
            self._statistics.renew()
        elif need.follow and not before.follow:
            self._to_newest()
        if need.group_by != before.group_by:
            changes["groups"] = None
            self._groups.renew()
        if need.statistics != before.statistics:
            changes["statistics"] = None
            self._statistics.renew()
        self._wake.set()
        self._publish(**changes)

    def parts(self) -> Iterator[SnapshotPart]:
        now, need, text = self.snapshot, self._need, self._need.filter.text
        yield SnapshotPart("rows", _RECORDED, (text, need.sort.value), not now.loading, "this filter")
        yield SnapshotPart("counts", ("counts",), (text,), now.counts is not None, "the count of this filter")
        if need.group_by is not None:
            yield SnapshotPart("groups", ("groups",), (text, need.group_by), now.groups is not None, "these groups")

    def touch(self, row_id: str | None = None) -> None:
        """Keep all rows in their places for two seconds, because the operator moved the cursor (to this row)."""
        self._around = row_id or self._around
        self._rest.touch(self._now())

    def busy(self, on: bool) -> None:
        """Note whether rows are marked or a sheet is open; rows then keep their places."""
        self._rest.busy = on
        self._wake.set()

    def refresh(self) -> None:
        super().refresh()
        self._load_at = self._background_at = 0.0

    def near(self, edge: Edge) -> None:
        """Load the page beyond an edge of the window, because the cursor is near it."""
        if self._load is None and self._window.beyond(edge) is not None:
            self._fetch(_Load(edge))
            self._publish()

    def jump(self, to: Literal["newest", "oldest"] | datetime) -> None:
        """Show the rows at one end of the order, or from this time on."""
        self._around = None
        if not isinstance(to, str):
            self._fetch(_Load("end", Cursor(to), resets=True, keeps=True, origin=Cursor(to)))
        elif (to == "oldest") is (self._need.sort in ASCENDING):
            self._to_newest()
        else:
            self._fetch(_Load("start", resets=True, keeps=True))
        self._publish()

    def _to_newest(self) -> None:
        """Go to the start of the order. If the window already begins there, add the new rows and drop none."""
        if self._window.before is None and self._load is None and len(self._window):
            self._shows_new_now = True
            self.refresh()
        else:
            self._fetch(_Load("end", resets=True, keeps=True))

    def _fetch(self, load: _Load) -> None:
        self._load, self._load_at = load, 0.0
        self._supersede()
        self._wake.set()

    def _due_at(self) -> float | None:
        if self._load is not None:
            return self._load_at
        due = None if self._frozen else self._most_due()
        return None if due is None else max(self._background_at, due[0])

    def _may_have_rows_above(self) -> bool:
        return self._window.before is None and not self._shows_new

    def _may_search_further(self) -> bool:
        return self._further_from is not None and self._rest.at(self._now())

    @property
    def _follows(self) -> bool:
        return self._need.follow and self._window.before is None

    @property
    def _shows_new(self) -> bool:
        return self._window.before is None and (
            self._shows_new_now or (self._need.follow and self._rest.at(self._now()))
        )

    def _rows_due_at(self) -> float:
        due = self._rows.due_at(told=self._link.listens)
        window, begins = self._window, self._rest.begins_at()
        if begins is not None and (window.unsettled or (self._follows and window.unseen)):
            due = min(due, max(begins, self._rows.earliest_at))
        return due

    async def _step(self) -> None:
        if self._load is not None:
            await self._dated("rows", self._read_load(self._load))
            return
        due = self._most_due()
        if due is None:
            return
        began = self._now()
        done = await self._perform(due[1])
        if self._counts.is_complete or not done:
            self._background_at = began + max(self._rhythm.tick_s, self._asked_s * self._rhythm.slow_factor)

    async def _read_load(self, load: _Load) -> None:
        window, sort, wanted = self._window, self._need.sort, self._conditions
        start = load.start if load.resets else window.beyond(load.edge)
        if start is None and not load.resets:
            self._load = None  # the window has reached the end in the meantime
            return
        began = self._now()
        if load.resets and load.start == load.origin:
            self._rows.begin(began)
        page = await self._read(
            lambda conn: task_page(
                conn, wanted, sort=sort, limit=load.rows, after=start, backwards=load.edge == "start"
            )
        )
        if self._load is not load:
            return  # superseded by a newer request
        if page is None:
            took_s = (self._now() - began) * self._rhythm.slow_factor
            self._load_at = began + max(self._rhythm.poll_s if self._error else self._rhythm.tick_s, took_s)
        elif load.resets and load.keeps and not page.rows and (further := _beyond(load, page)) and load.stretches > 1:
            self._load = replace(load, start=further, stretches=load.stretches - 1)
        else:
            self._put(load, page)
            self._load = _rest_of(load, page)
        if page is not None and load.start == load.origin and load.resets:
            self._rows.end(self._now(), done=True)
        self._publish()

    def _put(self, load: _Load, page: TaskPage) -> None:
        if not load.resets:
            self._window.extend(load.edge, page)
            return
        if self._window.sort is not self._need.sort:
            self._window = RowWindow(self._need.sort)
        at_origin = replace(page, previous=load.origin) if load.edge == "end" else replace(page, next=load.origin)
        self._window.reset(at_origin)
        self._further_from, self._shows_new_now = None, False

    async def _read_rows(self) -> bool:
        window, wanted = self._window, self._conditions
        part = window.slice(None if self._follows else self._around, PAGE, from_start=self._shows_new)
        fresh = await self._read(lambda conn: _read_fresh(conn, wanted, window, part))
        if fresh is not None and (self._load is None or not self._load.resets):
            fresh.put_into(window, part, idle=self._shows_new or self._rest.at(self._now()))
            self._rows.often_s = LIST_EVERY_S if any(row.progress for row in fresh.page.rows) else None
            self._shows_new_now = self._shows_new_now and not part.from_start
            if self._further_from is None:
                self._go_further(fresh.page)
        return fresh is not None

    async def _read_further(self) -> bool:
        """Search one more stretch of the range that a refresh did not reach, because rows there may have changed."""
        window, wanted, start = self._window, self._conditions, self._further_from
        assert start is not None
        part = window.slice_after(start, PAGE)
        fresh = await self._read(lambda conn: _read_fresh(conn, wanted, window, part))
        if fresh is not None and start == self._further_from and self._rest.at(self._now()):
            fresh.put_into(window, part, idle=True)
            self._go_further(fresh.page)
        return fresh is not None

    def _go_further(self, page: TaskPage) -> None:
        """Continue the search after a page if the window has few rows; otherwise scrolling reads more."""
        searched = page.next is None or self._window.has_searched(page.next)
        sparse = page.reached is not None and len(self._window) <= PAGE
        self._further_from = page.next if sparse and not searched else None

    @property
    def _running_names(self) -> frozenset[str]:
        return frozenset(row.name for row in self._window.rows if row.status == "RUNNING")

    async def _read_usual(self) -> bool:
        names = self._running_names
        usual = await self._read(lambda conn: _usual(conn, names))
        if usual is not None:
            self._publish(usual=usual)
        return usual is not None

    async def _read_above(self) -> bool:
        window, sort, wanted = self._window, self._need.sort, self._conditions
        top = window.top
        if top is None:
            return True
        before = self._searched_above
        start, unseen = (
            (before[1], window.unseen) if before is not None and before[0] == top else (top, frozenset[str]())
        )
        page = await self._read(
            lambda conn: task_page(conn, wanted, sort=sort, limit=PAGE, after=start, backwards=True)
        )
        if page is None or window is not self._window or top != window.top:
            return page is not None
        window.note_unseen({*unseen, *(row.id for row in page.rows)}, more=page.previous is not None)
        if page.reached is None or page.previous is None:
            return True
        self._searched_above = (top, page.previous)
        return False

    def _without_arguments(self) -> tuple[str, ...]:
        """Return the ids of the next rows whose arguments have not been read. Arguments do not change."""
        known = self.snapshot.arguments
        return tuple(row.id for row in self._window.rows if row.id not in known)[:PAGE]

    def _put_arguments(self, found: Mapping[str, BriefArguments]) -> Mapping[str, Any]:
        """Store the arguments that were read; rows deleted in the meantime have none."""
        known = {**self.snapshot.arguments, **dict.fromkeys(self._without_arguments(), _NO_ARGUMENTS), **found}
        return {"arguments": {row.id: known[row.id] for row in self._window.rows if row.id in known}}

    def _publish(self, **changes: Any) -> None:
        if self._link.playback is not None:
            super()._publish(**changes)  # the recording determines the rows
            return
        window = self._window
        super()._publish(
            rows=window.rows,
            struck=window.struck,
            unseen=len(window.unseen),
            more_unseen=window.more_unseen,
            at_start=window.before is None,
            at_end=window.after is None,
            searched=self._searched(),
            loading=self._load is not None or self._shows_new_now,
            **changes,
        )

    def _searched(self) -> str:
        """Return how far the search went; empty if it covered all rows or the next rows only need loading."""
        window, load = self._window, self._load
        reached = window.horizon if load is None or not load.keeps else load.start
        if reached is None:
            return ""
        way = "up" if self._need.sort in ASCENDING else "back"
        return f"searched {way} to {reached.time:%Y-%m-%d %H:%MZ}"


def _beyond(load: _Load, page: TaskPage) -> Cursor | None:
    """Return the place at which a search continues."""
    return page.previous if load.edge == "start" else page.next


def _rest_of(load: _Load, page: TaskPage) -> _Load | None:
    missing = load.rows - len(page.rows)
    if _beyond(load, page) is None or missing <= 0 or load.stretches <= 1:
        return None
    return _Load(load.edge, rows=missing, stretches=load.stretches - 1)


def _may_change(channel: str, _payload: str) -> bool:
    return channel not in ("horsies_worker_state", "horsies_workflow_status")


async def _groups(conn: Connection, request: tuple[TaskConditions, GroupBy | None]) -> TaskGroups | None:
    wanted, by = request
    return None if by is None else await task_groups(conn, wanted, by=by)


async def _named(conn: Connection, request: tuple[TaskConditions, Window | None]) -> TaskStatistics | None:
    wanted, window = request
    return None if window is None else await task_statistics(conn, wanted, window.length)


async def _usual(conn: Connection, names: frozenset[str]) -> Mapping[str, Usual]:
    """Read the usual durations; empty for upstream's tables, which have no index for that."""
    return await usual_durations(conn, names) if await has_progress(conn) else {}


async def _read_fresh(conn: Connection, conditions: TaskConditions, window: RowWindow, part: Slice) -> _Fresh:
    """Read a slice of the window again, without changing the window."""
    page = await task_page(conn, conditions, sort=window.sort, limit=part.limit, after=part.after)
    missing = tuple(window.missing_from(part, page))
    matching = await _by_ids(conn, conditions, missing)
    found = {row.id for row in matching}
    others = await _by_ids(conn, TaskConditions(), tuple(task_id for task_id in missing if task_id not in found))
    return _Fresh(page, missing, matching, others)


async def _by_ids(conn: Connection, conditions: TaskConditions, ids: tuple[str, ...]) -> tuple[TaskRow, ...]:
    """Read the rows with these ids that match. Terms on ids are dropped from the filter, since ids do not change."""
    if not ids:
        return ()
    return (await task_page(conn, conditions.among("id", ids), limit=len(ids))).rows
