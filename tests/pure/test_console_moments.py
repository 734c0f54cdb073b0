"""Times as an operator types them: the last such time of day, a time ago, or a date and time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from horsies_tui.tasks.menus import NoMoment, read_moment

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("11:30", "2026-11-18T11:30Z"),
        ("14:05", "2026-11-17T14:05Z"),
        ("9:05:07", "2026-11-18T09:05:07Z"),
        ("2h", "2026-11-18T10:00Z"),
        (" 1h30m ago ", "2026-11-18T10:30Z"),
        ("2 d", "2026-11-16T12:00Z"),
        ("2026-11-01", "2026-11-01T00:00Z"),
        ("2026-11-01 08:15", "2026-11-01T08:15Z"),
        ("2026-11-01T08:15+02:00", "2026-11-01T06:15Z"),
    ],
)
def test_what_is_typed_is_a_moment(text: str, moment: str) -> None:
    assert read_moment(text, NOON) == datetime.fromisoformat(moment)


def test_without_a_zone_the_operators_is_meant() -> None:
    assert read_moment("13:30", NOON, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)
    assert read_moment("2026-11-18 13:30", NOON, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)
    assert read_moment("11:30z", NOON, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "5", "noon", "25:00", "12:61", "2026-13-01", "-1h", "1h:2", "queue:mail", "1h 2x"]
)
def test_what_is_no_moment_is_told_with_what_would_be(text: str) -> None:
    with pytest.raises(NoMoment, match=r"14:05|there is no such time"):
        read_moment(text, NOON)


@given(st.text(max_size=20))
def test_no_text_breaks_it(text: str) -> None:
    try:
        told: object = read_moment(text, NOON).tzinfo
    except NoMoment as error:
        told = error.message
    assert told
