"""The position in a list, and its scrollbar."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from horsies_tui.look.cells import Cell, Column, ColumnSet
from horsies_tui.look.glyphs import ASCII, UNICODE
from horsies_tui.look.lines import title_line
from horsies_tui.look.position import WHOLE, Extent, more_below, position, scrollbar


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
