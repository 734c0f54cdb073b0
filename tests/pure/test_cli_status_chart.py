"""The chart of `horsies status --chart`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horsies.cli.cluster.lists import chart_lines
from horsies.display.terminal import Screen, visible
from horsies.views import TaskPoint

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def point(minute: int, ended: float | None, failed: float = 0.0, *, seconds: float = 60.0) -> TaskPoint:
    start = NOON + minute * MINUTE
    if ended is None:
        return TaskPoint(start, seconds)
    return TaskPoint(start, seconds, completed=ended - failed, failed=failed, other=0.0, waiting=ended / 2)


def drawn(*points: TaskPoint, screen: Screen | None = None) -> list[str]:
    return chart_lines(points, screen or Screen(80))


def test_rates_and_what_waits_are_drawn_with_their_scale_and_names() -> None:
    lines = drawn(*(point(minute, 60.0 * minute, 60.0) for minute in range(60)))
    text = "\n".join(lines)
    assert all(name in text for name in ("ended/s", "failed/s", "waiting", "minutes until now"))
    assert "59.0" in text, "a rate per second, the highest of the scale"
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text
    coloured = drawn(point(0, 1.0), point(1, 2.0), screen=Screen(80, colour=True))
    assert any("\x1b[" in visible(line) for line in coloured)


def test_a_gap_is_no_line() -> None:
    whole = drawn(*(point(minute, 60.0) for minute in range(60)))
    with_gap = drawn(*(point(minute, None if 20 <= minute < 40 else 60.0) for minute in range(60)))

    def dots(lines: list[str]) -> int:
        return sum(0x2800 < ord(char) < 0x2900 for line in lines for char in line)

    assert dots(with_gap) < 0.8 * dots(whole)


def test_a_minute_that_has_just_begun_is_left_out() -> None:
    lines = drawn(point(0, 60.0), point(1, 60.0), point(2, 9.0, seconds=1.0))
    assert lines[2].startswith("1.0"), "one a second is the top of the scale, not nine"


def test_without_a_task_there_is_a_sentence_and_no_chart() -> None:
    assert drawn(*(point(minute, None) for minute in range(60))) == [
        "",
        "nothing to draw: no task was sent in the last hour",
    ]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    lines = drawn(point(0, 1.0), point(1, 60.0), screen=Screen(80, unicode=False))
    assert all(line.isascii() for line in lines)
    assert any("*" in line for line in lines)
