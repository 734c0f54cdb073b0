"""Cursor and view keep to rows by id while others are added and removed; the position in a list and its scrollbar."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from horsies_tui.look.bars import WHOLE, Extent, more_below, position, scrollbar
from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import title_line
from horsies_tui.widgets.viewport import Viewport


@dataclass(frozen=True)
class Row:
    id: str


def rows(*ids: object) -> tuple[Row, ...]:
    return tuple(Row(str(each)) for each in ids)


def viewport(count: int, *, cursor: int = 0, height: int = 5) -> Viewport[Row]:
    view: Viewport[Row] = Viewport()
    view.resize(height)
    view.take(rows(*range(count)))
    view.move_to(cursor)
    return view


def line_of_cursor(view: Viewport[Row]) -> int:
    return view.cursor - view.top


def test_rows_that_come_above_move_neither_the_cursor_nor_its_line():
    view = viewport(20, cursor=3)
    view.take(rows("a", "b", "c", *range(20)))
    assert (view.cursor_id, line_of_cursor(view)) == ("3", 3)


def test_with_stick_the_newest_stay_in_view_and_the_cursor_on_its_row():
    view = viewport(20)
    view.take(rows("new", *range(20)), stick=True)
    assert (view.cursor_id, view.cursor, view.top) == ("0", 1, 0)


def test_with_stick_a_row_that_leaves_the_view_is_chosen_no_more():
    view = viewport(20)
    view.take(rows("a", "b", "c", "d", *range(20)), stick=True)
    assert (view.cursor_id, view.top) == ("0", 0)
    view.take(rows("e", "a", "b", "c", "d", *range(20)), stick=True)
    assert (view.cursor_id, view.cursor_row, view.top) == (None, None, 0)
    view.step(1)
    assert view.cursor_id == "e"
    view.step(1)
    assert view.cursor_id == "a"


def test_where_its_row_is_gone_no_row_is_chosen_until_a_step():
    view = viewport(20, cursor=4)
    view.take(rows(*(each for each in range(20) if each not in (4, 5))))
    assert view.cursor_id is None
    view.take(rows(0, 1, 2))
    assert view.cursor_id is None
    view.step(-1)
    assert view.cursor_id == "2"


def test_among_rows_that_are_all_others_none_is_chosen():
    view = viewport(20, cursor=7)
    view.take(rows("a", "b"))
    assert (view.cursor_id, view.top) == (None, 0)
    view.take(())
    view.take(rows("c"))
    assert view.cursor_id is None


def test_beyond_the_edge_the_view_moves_by_half_so_that_most_keys_send_two_lines():
    view = viewport(20, cursor=4)
    view.move_to(5)
    assert (view.top, line_of_cursor(view)) == (3, 2)


def test_a_page_keeps_one_row_in_view_and_ends_full():
    view = viewport(12)
    view.page(1)
    assert (view.top, view.cursor_id) == (4, "4")
    view.page(1)
    view.page(1)
    assert [row.id for row in view.in_view] == ["7", "8", "9", "10", "11"]
    view.page(-1)
    view.page(-9)
    assert (view.top, view.cursor) == (0, 0)


IDS = st.lists(st.integers(0, 30), unique=True, max_size=25)
STEP = st.one_of(
    st.tuples(st.just("take"), IDS, st.booleans()),
    st.tuples(st.just("move"), st.integers(-5, 40)),
    st.tuples(st.just("page"), st.integers(-2, 2)),
    st.tuples(st.just("resize"), st.integers(-1, 12)),
)


@given(st.lists(STEP, max_size=30))
def test_the_cursor_is_in_view_and_no_blank_is_shown_where_rows_are(steps):
    view: Viewport[Row] = Viewport()
    for name, *values in steps:
        match name:
            case "take":
                before = view.cursor_id
                view.take(rows(*values[0]), stick=values[1])
                if before is not None:
                    stays = not values[1] and view.index_of(before) is not None
                    assert view.cursor_id in ((before,) if stays else (before, None))
            case "move":
                view.move_to(values[0])
            case "page":
                view.page(values[0])
            case "resize":
                view.resize(values[0])
        assert len(view.in_view) == min(view.height, len(view.rows))
        assert view.cursor_row is None or view.cursor_row in view.in_view
        assert view.above + len(view.in_view) + view.below == len(view.rows)


@pytest.mark.parametrize(
    ("index", "loaded", "extent", "words"),
    [
        (11, 40, WHOLE, "12 / 40"),
        (11, 400, Extent(0, 2_772), "12 / 2,772"),
        (0, 200, Extent(0, 10_000, at_least=True), "1 / 10,000+"),
        (4, 200, Extent(37, 2_772), "42 / 2,772"),
        (4, 200, Extent(None, 2_772), "… / 2,772"),
        (None, 200, Extent(0, 2_772), "2,772"),
        (99, 100, Extent(0, 90), "100 / 100"),
    ],
)
def test_the_position_is_the_number_of_the_row_and_of_all(
    index: int | None, loaded: int, extent: Extent, words: str
) -> None:
    assert position(index, loaded, extent, UNICODE) == words


def test_rows_that_a_part_does_not_show_are_counted() -> None:
    assert more_below(4, UNICODE) == "↓ 4 more"
    assert more_below(1_204, ASCII) == "v 1,204 more"
    assert more_below(0, UNICODE) == ""


def test_a_scrollbar_shows_which_part_is_in_view() -> None:
    extent = Extent(0, 100)
    assert scrollbar(0, 10, 40, extent, 10) == range(1)
    assert scrollbar(1, 10, 40, extent, 10) == range(1, 2)
    assert scrollbar(45, 10, 60, extent, 10) == range(4, 5)
    assert scrollbar(90, 10, 100, extent, 10) == range(9, 10)
    assert scrollbar(0, 10, 20, WHOLE, 10) == range(5)
    assert scrollbar(0, 10, 10, WHOLE, 10) is None
    assert scrollbar(0, 10, 40, Extent(None, 100), 10) is None


@given(st.integers(1, 60), st.integers(0, 3_000_000), st.integers(0, 3_000_000))
def test_its_thumb_is_on_the_bar_and_at_an_end_only_there(view: int, top: int, whole: int) -> None:
    top = min(top, max(whole - view, 0))
    found = scrollbar(top, view, whole, Extent(0, whole), view)
    assert (found is None) is (view >= whole)
    if found is not None:
        assert len(found) >= 1
        assert range(view)[found.start : found.stop] == found
        if view > 2:
            assert (found.start == 0) is (top == 0) or len(found) == view
            assert (found.stop == view) is (top == whole - view) or len(found) >= view - 1


@pytest.mark.parametrize(
    ("width", "title"),
    [
        (40, "   ID      ERROR             12 / 2,772 "),
        (29, "   ID      ERROR  12 / 2,772 "),
        (27, "   ID      ERROR  12/2,772 "),
        (24, "   ID      ERROR        "),
    ],
)
def test_the_position_stands_at_the_end_of_the_titles_if_there_is_room(width: int, title: str) -> None:
    columns = ColumnSet(
        (
            Column("id", "ID", lambda row, look: Cell(row.id), 7),
            Column("error", "ERROR", lambda row, look: Cell(""), 5, grow=1),
        )
    )
    line = title_line(columns.place(width), UNICODE, width, "12 / 2,772")
    assert "".join(piece.text for piece in line) == title
    assert sum(piece.width for piece in line) == width
