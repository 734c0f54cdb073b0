"""Charts and spark lines: width, gaps, and speed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings, strategies as st

from horsies.views import Buckets
from horsies_tui.health.history import Series
from horsies_tui.health.windows import USUAL, WINDOWS, fitting
from horsies_tui.look.charts import (
    Chart,
    ChartReading,
    Curve,
    chart_lines,
    drawable,
    round_up,
    round_up_time,
    spark,
    spark_line,
    squeezed,
)
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.plot import Fill, place_of, plot, sampled
from horsies_tui.look.tones import AREA, Tone
from horsies_tui.overview.rows import charts_of

UNICODE, ASCII = glyphs(ascii_only=False), glyphs(ascii_only=True)
ANY_NUMBER = st.one_of(
    st.none(), st.floats(0, 1e6), st.floats(), st.sampled_from([5e-324, 2.2e-308, 1e-12, 1.7e308, math.inf, math.nan])
)
VALUES = st.lists(ANY_NUMBER, max_size=120)


def whole(value: float) -> str:
    return f"{value:.0f}"


def a_chart(*curves: list[float | None], top: float | None = None) -> Chart:
    tones = (Tone.WARNING, Tone.RUNNING)
    named = tuple(
        Curve(f"p{number}", tuple(values), tone, "1.0")
        for number, (values, tone) in enumerate(zip(curves, tones, strict=False))
    )
    return Chart("wait", named, whole, "1h", top=top)


@given(VALUES, st.integers(1, 70), st.integers(1, 20), st.booleans())
@example([5e-324], 40, 8, False)
@example([1.7e308, 1.0], 40, 8, False)
@example([math.inf, math.nan, -math.inf, -1.0], 40, 8, True)
@settings(max_examples=60)
def test_every_line_of_a_chart_is_as_wide_as_the_chart(
    values: list[float | None], width: int, height: int, plain: bool
) -> None:
    chart = a_chart(values, [value and value / 2 for value in values])
    signs = ASCII if plain else UNICODE
    lines = [*chart_lines(chart, width, height, signs), spark_line(chart, width, signs)]
    assert [sum(piece.width for piece in line) for line in lines] == [width] * len(lines)
    assert len(lines) == height + 1
    text = "".join(piece.text for line in lines for piece in line)
    assert not plain or text.isascii()
    assert all(len(piece.text) == piece.width for line in lines for piece in line)


@given(ANY_NUMBER)
@example(5e-324)
@example(math.nan)
@example(math.inf)
@settings(max_examples=60)
def test_all_charts_of_the_overview_can_be_drawn_whatever_was_measured(value: float | None) -> None:
    buckets = Buckets(datetime(2026, 11, 18, tzinfo=UTC), timedelta(minutes=1), 3)
    values = (1.0, value, value)
    charts = charts_of(Series(buckets, *[values] * 8), USUAL, "-")
    assert len(charts) == 6
    for chart in charts:
        lines = chart_lines(chart, 40, 8, UNICODE)
        assert [sum(piece.width for piece in line) for line in lines] == [40] * 8
        assert math.isfinite(chart.height)


def drawn(*curves: tuple[list[float | None], Fill], width: int, height: int, plain: bool = False) -> list[str]:
    grid = plot(curves, width, height, top=8.0, ascii_only=plain)
    return ["".join(mark.char for mark in line) for line in grid]


SLOPE: list[float | None] = [0.0, 2.0, 4.0, 6.0, 8.0, None, None, None, 3.0, 3.0]
HALF = [value and value / 2 for value in SLOPE]


def test_a_band_and_the_area_in_it_differ_in_their_dots() -> None:
    assert drawn((SLOPE, Fill.BAND), (HALF, Fill.AREA), width=10, height=3) == [
        "   ⡠⡚     ",
        "  ⡔⣑⣴   ⣀⣀",
        "⣠⣾⣾⣿⣿   ⣶⣶",
    ]


def test_in_ascii_curves_differ_in_their_signs() -> None:
    assert drawn((SLOPE, Fill.BAND), (HALF, Fill.AREA), width=10, height=4, plain=True) == [
        "    *     ",
        "  **o     ",
        " *oo:   **",
        "*o:::   ::",
    ]


def test_a_column_without_a_dot_is_a_gap_so_zero_has_one() -> None:
    assert drawn(([0.0, None, 0.0], Fill.LINE), width=3, height=2) == ["   ", "⣀ ⣀"]


def test_a_gap_is_as_wide_as_the_time_without_data() -> None:
    values: list[float | None] = [5.0] * 20 + [None] * 20 + [5.0] * 20
    grid = plot([(values, Fill.AREA)], 60, 4, top=10.0, ascii_only=False)
    assert {x for line in grid for x, mark in enumerate(line) if mark.curve is not None} == {*range(20), *range(40, 60)}


def part_of(values: Sequence[float | None], at: int, width: int) -> Sequence[float | None]:
    return values[at * len(values) // width : (at + 1) * len(values) // width]


@given(VALUES, st.integers(1, 70))
def test_no_peak_is_lost_and_nothing_is_drawn_where_nothing_is_known(values: list[float | None], width: int) -> None:
    known = drawable(values)
    found = sampled(known, width) if known else []
    if len(known) >= width:
        assert [value for value in found if value is not None] == [
            max(part) for at in range(width) if (part := [one for one in part_of(known, at, width) if one is not None])
        ]
    else:
        assert [value is None for value in found] == [
            known[int((at + 0.5) * len(known) / width)] is None for at in range(len(found))
        ]


def test_the_highest_stands_at_the_top_and_nothing_at_the_bottom() -> None:
    grid = plot([([0.0] * 5 + [10.0] * 5, Fill.LINE)], 10, 4, top=10.0, ascii_only=True)
    assert grid[0][9].char == "*"
    assert grid[3][0].char == "*"
    assert {mark.char for mark in grid[3][6:]} == {" "}


def test_each_curve_keeps_its_colour_and_the_first_lies_above() -> None:
    chart = a_chart([8.0] * 30, [2.0] * 30)
    tones = {piece.classes for line in chart_lines(chart, 40, 8, UNICODE)[1:-1] for piece in line}
    assert {(Tone.WARNING,), (Tone.RUNNING,), (Tone.RUNNING, AREA[Tone.RUNNING])} <= tones
    level = ([5.0] * 10, Fill.AREA)
    grid = plot([level, level], 10, 4, top=10.0, ascii_only=False)
    assert {mark.curve for line in grid for mark in line if not mark.inner} == {None, 0}


def texts(chart: Chart, width: int, height: int, reading: ChartReading | None = None) -> list[str]:
    lines = chart_lines(chart, width, height, UNICODE, reading=reading)
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


BUSY = Chart("busy", (Curve("", (1.0, 2.0, 6.0, 2.0, 1.0, None, 1.0, 1.0), Tone.RUNNING, "1"),), whole, "1h")


def test_a_chart_has_its_peak_its_half_its_scale_and_its_time() -> None:
    assert texts(BUSY, 31, 8) == [
        " busy 1",
        "     6        ⣶ 6",
        "             ⣼⣿⣧",
        "            ⣰⣿⣿⣿⣆",
        "     3 ⠁⠁⠁⠁⢠⣿⣿⣿⣿⣿⡄⠁⠁⠁⠁⠁⠁⠁⠁⠁⠁⠁⠁⠁",
        "       ⣀⣀⣤⣾⣿⣿⣿⣿⣿⣿⣿⣷⣤⣀⣀   ⣀⣀⣀⣀⣀⣀",
        "     0 ⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿   ⣿⣿⣿⣿⣿⣿",
        "       1h ago ───────────── now",
    ]


def test_the_value_at_a_time_is_read_there() -> None:
    read = texts(BUSY, 31, 8, ChartReading(2, "12:00:00Z"))
    assert read[0] == " busy 6"
    assert "12:00:00Z" in read[-1]
    at = 7 + place_of(2, 8, 24)
    middle = read[-1].index("12:00:00Z") + 4
    assert abs(middle - at) <= 1
    assert texts(BUSY, 31, 8, ChartReading(5, "12:03:00Z"))[0] == " busy –"
    gap = chart_lines(BUSY, 31, 8, UNICODE, reading=ChartReading(5, "12:03:00Z"))
    assert all(any(piece == ("│", 1, (Tone.ACCENT,)) for piece in line) for line in gap[1:-1])


@pytest.mark.parametrize(
    ("age", "name"), [(None, "1h"), (0, "5m"), (300, "5m"), (301, "30m"), (1_801, "1h"), (9_999_999, "1h")]
)
def test_the_window_is_one_that_the_data_fill(age: int | None, name: str) -> None:
    assert fitting(None if age is None else timedelta(seconds=age)).name == name
    assert fitting(None) in WINDOWS


def test_a_chart_without_data_says_so() -> None:
    text = "".join(piece.text for line in chart_lines(a_chart([None] * 9), 40, 6, UNICODE) for piece in line)
    assert "nothing is known of this time" in text


@given(st.floats(1e-6, 1e12))
def test_the_scale_ends_at_a_number_that_can_be_read(value: float) -> None:
    top = round_up(value)
    assert value <= top * (1 + 1e-6)
    assert top <= 2 * value * (1 + 1e-6)
    assert f"{top:e}"[0] in "12468"


@pytest.mark.parametrize(("seconds", "top"), [(0.0, 1.0), (0.03, 0.04), (1.1, 2), (31, 60), (1_000, 1_200), (1e6, 1e6)])
def test_a_scale_of_time_ends_at_what_a_clock_has(seconds: float, top: float) -> None:
    assert round_up_time(seconds) == pytest.approx(top)


def test_a_fixed_scale_gives_way_only_to_what_is_higher() -> None:
    assert a_chart([0.3], top=1.0).height == 1.0
    assert a_chart([1.6], top=1.0).height == 2.0
    assert a_chart([0.0]).height == 1.0


@given(VALUES, st.integers(0, 60))
def test_a_spark_is_as_wide_as_it_may_be_and_blank_only_where_nothing_is_known(
    values: list[float | None], width: int
) -> None:
    text = spark(values, width)
    peaks = squeezed(drawable(values), width)
    assert len(text) == len(peaks) == width
    assert [char == " " for char in text] == [peak is None for peak in peaks]
    assert spark(values, width, ascii_only=True).isascii()


def test_a_spark_shows_the_peaks() -> None:
    assert spark([0.0, 1.0, 2.0, None, 4.0], 5) == "▁▃▅ █"
    assert spark([1.0, 9.0, 1.0, 1.0], 2) == "█▁"
    assert spark([3.0], 3) == "  ▁" or spark([3.0], 3) == "  █"
    assert spark([0.0, 0.0], 2) == "▁▁"


@pytest.mark.bench
@pytest.mark.parametrize(("width", "height"), [(38, 9), (66, 14)])
def test_a_chart_of_two_curves_takes_less_than_five_milliseconds(width: int, height: int) -> None:
    chart = a_chart([float(n % 17) for n in range(96)], [float(n % 5) if n % 9 else None for n in range(96)])
    took = []
    for _ in range(20):
        began = time.perf_counter()
        chart_lines(chart, width, height, UNICODE)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.005
