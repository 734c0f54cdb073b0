"""Cron expressions against a minute-by-minute walk, in zones with and without changes of their clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from horsies.config.schedule import CronSchedule, TaskSchedule
from horsies.domain.errors import ConfigurationError
from horsies.domain.schedule_times import calculate_next_run

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo"]
MINUTE = timedelta(minutes=1)
# Days around the changes of 2026 in Berlin, New York and on Lord Howe (by half an hour), and one without a change.
CHANGES = ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2026-07-01"]
DAYS = [datetime.fromisoformat(f"{day}T00:00Z") for day in CHANGES]


def runs(expression: str, zone: str, start: datetime, count: int) -> list[datetime]:
    found = []
    for _ in range(count):
        start = calculate_next_run(CronSchedule(expression=expression), start, zone)
        found.append(start)
    return found


def walked(minutes: range | None, hours: range | None, zone: str, start: datetime, count: int) -> list[datetime]:
    """The same by looking at every minute: each instant of a wildcard's, the first one of a local time otherwise."""
    found: list[datetime] = []
    instant, place = start.replace(second=0, microsecond=0), ZoneInfo(zone)
    while len(found) < count:
        instant += MINUTE
        local = instant.astimezone(place)
        if (minutes is None or local.minute in minutes) and (hours is None or local.hour in hours):
            repeated = local.fold == 1 and minutes is not None and hours is not None
            if not repeated:
                found.append(instant)
    return found


@given(
    zone=st.sampled_from(ZONES),
    day=st.sampled_from(DAYS),
    minute=st.none() | st.integers(0, 59),
    hour=st.none() | st.integers(0, 23),
    offset=st.integers(0, 2 * 24 * 60),
)
def test_runs_are_those_of_a_walk_through_every_minute(
    zone: str, day: datetime, minute: int | None, hour: int | None, offset: int
) -> None:
    start = day - timedelta(days=1) + offset * MINUTE
    expression = f"{'*' if minute is None else minute} {'*' if hour is None else hour} * * *"
    minutes = None if minute is None else range(minute, minute + 1)
    hours = None if hour is None else range(hour, hour + 1)
    assert runs(expression, zone, start, 4) == walked(minutes, hours, zone, start, 4)


def test_every_five_minutes_stays_so_when_an_hour_is_repeated() -> None:
    before = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)  # 02:00 in Berlin, for the first time
    found = runs("*/5 * * * *", "Europe/Berlin", before, 30)
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=5)}


def test_names_of_days_and_the_last_day_of_a_month_are_known() -> None:
    start = datetime(2026, 11, 19, tzinfo=UTC)
    assert runs("0 9 * * mon-fri", "UTC", start, 3) == [datetime(2026, 11, day, 9, tzinfo=UTC) for day in (19, 20, 23)]
    assert runs("0 0 L * *", "UTC", start, 2) == [
        datetime(2026, 11, 30, tzinfo=UTC),
        datetime(2026, 12, 31, tzinfo=UTC),
    ]
    assert runs("0 0 29 2 *", "UTC", start, 1) == [datetime(2028, 2, 29, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("0 0 1 1 * 2026", "it has 6 fields, not five"),
        ("* * * *", "it has 4 fields, not five"),
        ("", "it has 0 fields, not five"),
        ("0 0 31 2 *", "it never comes due: none of its months has such a day"),
        ("0 0 31 2,4 *", "it never comes due"),
        ("0 0 32 2 *", "bad day-of-month"),
        ("0 0 1 13 *", "bad month"),
        ("61 * * * *", "bad minute"),
        ("* * * * funday", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(expression: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match="cron expression") as raised:
        CronSchedule(expression=expression)
    assert problem in raised.value.message


def test_a_string_as_pattern_is_an_expression() -> None:
    schedule = TaskSchedule(name="nightly", task_name="report", pattern="30 2 * * *")
    assert schedule.pattern == CronSchedule(expression="30 2 * * *")
    again = TaskSchedule.model_validate(schedule.model_dump())
    assert again.pattern == schedule.pattern
    with pytest.raises(ConfigurationError, match="it has 1 fields"):
        TaskSchedule(name="nightly", task_name="report", pattern="nightly")
