"""The window of rows against a table in memory: rows do not move until they may."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from story_scene import row as task_row

from horsies.views import Cursor, Sort, TaskPage, TaskRow, cursor_of
from horsies_tui.tasks.window import RowWindow, Slice

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def row(number: int, status: str = "PENDING", priority: int = 100) -> TaskRow:
    made = NOW + timedelta(seconds=number)
    moments = dict.fromkeys(("created_at", "sent_at", "enqueued_at"), made)
    usual = {"next_retry_at": None, "retry_count": 0, "status": status, "state": status, "priority": priority}
    return task_row(id=f"task-{number:05}", **usual, **moments)


@dataclass
class Table:
    """task_page for a table in memory; the filter is status:pending."""

    sort: Sort = Sort.NEWEST
    rows: dict[str, TaskRow] = field(default_factory=dict)
    busy: bool = False

    def add(self, *numbers: int) -> None:
        self.rows |= {task.id: task for task in map(row, numbers)}

    def change(self, number: int, **changes: object) -> None:
        task_id = row(number).id
        self.rows[task_id] = replace(self.rows[task_id], **changes)

    def delete(self, number: int) -> None:
        del self.rows[row(number).id]

    def do(self, what: str, number: int) -> None:
        """A step of the property below, if it is possible."""
        is_there = row(number).id in self.rows
        if what == "add" and not is_there:
            self.add(number)
        elif what == "end" and is_there:
            self.change(number, status="COMPLETED")
        elif what == "raise" and is_there:
            self.change(number, priority=number)
        elif what == "delete" and is_there:
            self.delete(number)
        elif what == "busy":
            self.busy = bool(number)

    def matching(self) -> list[TaskRow]:
        found = [task for task in self.rows.values() if task.status == "PENDING"]
        return sorted(found, key=lambda task: self.key(cursor_of(task, self.sort)), reverse=self.sort is Sort.NEWEST)

    def key(self, place: Cursor) -> tuple[object, ...]:
        return (place.priority, place.time, place.id)

    def is_after(self, task: TaskRow, place: Cursor) -> bool:
        mine, others = self.key(cursor_of(task, self.sort)), self.key(place)
        return mine < others if self.sort is Sort.NEWEST else mine > others

    def page(self, after: Cursor | None, limit: int, *, backwards: bool = False) -> TaskPage:
        rows = self.matching()
        if backwards:
            rows = [
                task
                for task in rows
                if after is None or not (self.is_after(task, after) or cursor_of(task, self.sort) == after)
            ]
            shown, more = rows[-limit:], len(rows) > limit
        else:
            rows = [task for task in rows if after is None or self.is_after(task, after)]
            shown, more = rows[:limit], len(rows) > limit
        first, last = (cursor_of(shown[0], self.sort), cursor_of(shown[-1], self.sort)) if shown else (after, after)
        behind, ahead = (first if more else None), (last if more else None)
        if backwards:
            return TaskPage(tuple(shown), NOW, last if after else None, behind, None)
        return TaskPage(tuple(shown), NOW, ahead, first if after else None, None)

    def read(self, window: RowWindow, around: str | None = None, limit: int = 20, *, lets_in: bool) -> None:
        """What the feed does in one tick."""
        part = window.slice(around, limit, from_start=lets_in)
        page = self.page(part.after, part.limit)
        self.tell(window, part, page)
        if lets_in or not self.busy:
            window.replace(part, page)

    def tell(self, window: RowWindow, part: Slice, page: TaskPage) -> None:
        missing_from = window.missing_from(part, page)
        known = [self.rows[task_id] for task_id in missing_from if task_id in self.rows]
        window.refresh(part, page)
        window.renew(missing_from, [task for task in known if task.status == "PENDING"], known)


def ids(window: RowWindow) -> list[str]:
    return [task.id for task in window.rows]


def names(*numbers: int) -> list[str]:
    return [row(number).id for number in numbers]


def filled(table: Table, limit: int = 20, most: int = 60) -> RowWindow:
    window = RowWindow(table.sort, most)
    window.reset(table.page(None, limit))
    return window


def test_a_row_that_stops_matching_stays_in_its_place_until_the_window_settles() -> None:
    table = Table(busy=True)
    table.add(1, 2, 3)
    window = filled(table)
    table.change(2, status="RUNNING")
    table.read(window, lets_in=False)
    assert ids(window) == names(3, 2, 1)
    assert (window.struck, window.rows[1].status, window.unsettled) == ({"task-00002"}, "RUNNING", True)
    table.busy = False
    table.read(window, lets_in=False)
    assert (ids(window), window.struck, window.unsettled) == (names(3, 1), frozenset(), False)


def test_a_row_that_matches_again_is_not_struck_any_more() -> None:
    table = Table(busy=True)
    table.add(1, 2)
    window = filled(table)
    table.change(2, status="RUNNING")
    table.read(window, lets_in=False)
    table.change(2, status="PENDING")
    table.read(window, lets_in=False)
    assert window.struck == frozenset()


def test_a_deleted_row_is_struck_with_what_was_known_of_it() -> None:
    table = Table(busy=True)
    table.add(1, 2)
    window = filled(table)
    before = window.rows
    table.delete(1)
    table.read(window, lets_in=False)
    assert (window.rows, window.struck) == (before, {"task-00001"})


def test_rows_that_have_not_changed_stay_the_same_objects() -> None:
    table = Table()
    table.add(1, 2, 3)
    window = filled(table)
    before = window.rows
    table.rows = {task_id: replace(task) for task_id, task in table.rows.items()}
    table.change(1, retry_count=1)
    table.read(window, lets_in=True)
    assert [mine is theirs for mine, theirs in zip(window.rows, before, strict=True)] == [True, True, False]


def test_what_begins_to_match_in_the_middle_waits_and_what_comes_above_stays_outside() -> None:
    table = Table(busy=True)
    table.add(1, 3)
    window = filled(table)
    table.add(2, 4)
    table.read(window, lets_in=False)
    assert ids(window) == names(3, 1)
    table.busy = False
    table.read(window, lets_in=False)
    assert ids(window) == names(3, 2, 1)
    table.read(window, lets_in=True)
    assert ids(window) == names(4, 3, 2, 1)


def test_a_page_from_the_start_counts_what_it_may_not_let_in() -> None:
    table = Table()
    table.add(1, 2)
    window = filled(table)
    table.add(3, 4, 5)
    part = window.slice(None, 20, from_start=True)
    table.tell(window, part, table.page(part.after, part.limit))
    assert (ids(window), window.unseen, window.more_unseen) == (names(2, 1), set(names(3, 4, 5)), False)


def test_a_burst_longer_than_a_page_leaves_no_hole() -> None:
    table = Table()
    table.add(*range(10))
    window = filled(table)
    table.add(*range(100, 150))
    table.read(window, lets_in=True, limit=20)
    assert ids(window) == names(*range(149, 129, -1))
    assert window.after is not None
    window.extend("end", table.page(window.after, 40))
    assert ids(window) == names(*range(149, 99, -1), *range(9, -1, -1))


def test_the_end_is_not_reached_when_more_rows_came_in_than_a_page_has() -> None:
    table = Table()
    table.add(*range(5, 15))
    window = filled(table, limit=20)
    assert window.after is None
    table.add(0, 1, 2, 3, 4)
    part = window.slice(None, 12, from_start=True)
    page = table.page(part.after, part.limit)
    table.tell(window, part, page)
    window.replace(part, page)
    assert ids(window) == names(*range(14, 2, -1))
    assert window.after == cursor_of(row(3), Sort.NEWEST)


@pytest.mark.parametrize("around", [0, 30, 59])
def test_a_slice_is_the_lines_around_a_row(around: int) -> None:
    table = Table()
    table.add(*range(60))
    window = filled(table, limit=60)
    part = window.slice(ids(window)[around], 20, from_start=False)
    assert part.last - part.first == 20
    assert part.first <= around < part.last
    page = table.page(part.after, part.limit)
    assert [task.id for task in page.rows] == ids(window)[part.first : part.last]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 400)),
        st.tuples(st.just("end"), st.integers(0, 400)),
        st.tuples(st.just("delete"), st.integers(0, 400)),
        st.tuples(st.just("raise"), st.integers(0, 400)),
        st.tuples(st.just("page"), st.sampled_from([0, 1])),
        st.tuples(st.just("read"), st.integers(0, 59)),
        st.tuples(st.just("busy"), st.sampled_from([0, 1])),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(start=st.sets(st.integers(0, 400), max_size=80), sort=st.sampled_from([Sort.NEWEST, Sort.WAITING]), steps=steps)
def test_rows_keep_still_while_keys_are_pressed_and_are_right_once_all_is_read_at_rest(
    start: set[int], sort: Sort, steps: list[tuple[str, int]]
) -> None:
    table = Table(sort=sort)
    table.add(*start)
    window = filled(table)
    for what, number in steps:
        before = ids(window)
        table.do(what, number)
        if what == "page":
            edge = "end" if number else "start"
            if (beyond := window.beyond(edge)) is not None:
                window.extend(edge, table.page(beyond, 20, backwards=edge == "start"))
        elif what == "read":
            table.read(window, before[number] if number < len(before) else None, lets_in=False)
            assert not table.busy or ids(window) == before
        assert len(set(ids(window))) == len(window) <= 60
    table.busy = False
    for _ in range(3):  # a row may have moved from the last slice into the first
        for index in (0, 10, 20, 30, 40, 50, 59):
            shown = ids(window)
            table.read(window, shown[index] if index < len(shown) else None, lets_in=False)
    right = [task.id for task in table.matching()]
    assert window.struck == frozenset()
    if len(window):
        at = right.index(ids(window)[0])
        assert ids(window) == right[at : at + len(window)]
        assert window.after is not None or ids(window)[-1] == right[-1]
