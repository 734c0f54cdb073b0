"""Next runs and cron expressions against a walk minute by minute through clock changes, and documented cases."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from horsies.config.schedule import (
    CronSchedule,
    DailySchedule,
    HourlySchedule,
    IntervalSchedule,
    MonthlySchedule,
    TaskSchedule,
    WeeklySchedule,
)
from horsies.domain.errors import ConfigurationError
from horsies.domain.schedule_times import (
    WEEK,
    Rhythm,
    WallClock,
    Weekday,
    calculate_next_run,
    missed_slots,
    should_run_now,
)

# The minute of each clock change, in UTC; Kolkata has none and stands for half-hour offsets.
CLOCK_CHANGES = [
    ("Europe/Berlin", datetime(2024, 3, 31, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2024, 10, 27, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2024, 3, 10, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2024, 11, 3, 6, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2024, 4, 6, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2024, 10, 5, 15, 30, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2012, 3, 31, 14, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2024, 3, 31, 1, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
]
YEARS = [
    ("Europe/Berlin", 2024),
    ("America/New_York", 2024),
    ("Australia/Lord_Howe", 2024),
    ("Pacific/Apia", 2011),
    ("Asia/Kolkata", 2024),
    ("America/Sao_Paulo", 2018),
]
WINDOW = timedelta(days=2)

CalendarPattern: TypeAlias = HourlySchedule | DailySchedule | WeeklySchedule | MonthlySchedule

any_instant = st.datetimes(
    datetime(1990, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    datetime(2037, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    timezones=st.timezones(),
)


@cache
def walk(zone: str, start: datetime, end: datetime, step: timedelta) -> list[tuple[datetime, datetime]]:
    """Every step between two instants: in UTC, and as local time."""
    count = (end - start) // step
    instants = [start + step * n for n in range(count + 1)]
    return [(instant, instant.astimezone(ZoneInfo(zone))) for instant in instants]


def shows(pattern: CalendarPattern, local: datetime) -> bool:
    """Whether local time matches the pattern, to the minute and not for the second time."""
    if local.fold:
        return False
    match pattern:
        case HourlySchedule(minute=minute):
            return local.minute == minute
        case DailySchedule(time=mark):
            return (local.hour, local.minute) == (mark.hour, mark.minute)
        case WeeklySchedule(days=days, time=mark):
            return (local.hour, local.minute) == (mark.hour, mark.minute) and WEEK[local.weekday()] in days
        case MonthlySchedule(day=day, time=mark):
            return (local.hour, local.minute) == (mark.hour, mark.minute) and local.day == day


def second_of(pattern: CalendarPattern) -> timedelta:
    return timedelta(seconds=pattern.second if isinstance(pattern, HourlySchedule) else pattern.time.second)


def patterns_near(local: datetime) -> st.SearchStrategy[CalendarPattern]:
    """Patterns with marks within three hours of this local time, including times that a clock change skips."""

    def build(minutes: int, second: int, more_days: set[Weekday], kind: int) -> CalendarPattern:
        mark = local.replace(tzinfo=None, second=second) + timedelta(minutes=minutes)
        days = {WEEK[mark.weekday()], *more_days}
        return (
            HourlySchedule(minute=mark.minute, second=second),
            DailySchedule(time=mark.time()),
            WeeklySchedule(days=tuple(days), time=mark.time()),
            MonthlySchedule(day=mark.day, time=mark.time()),
        )[kind]

    return st.builds(
        build, st.integers(-180, 180), st.integers(0, 59), st.sets(st.sampled_from(WEEK), max_size=3), st.integers(0, 3)
    )


@settings(max_examples=150)
@given(st.data(), st.sampled_from(CLOCK_CHANGES), st.integers(-86_400, 86_400))
def test_nothing_between_from_time_and_the_next_run_matches(
    data: st.DataObject, change: tuple[str, datetime], seconds: int
) -> None:
    zone, edge = change
    pattern = data.draw(patterns_near(edge.astimezone(ZoneInfo(zone))))
    from_time = edge + timedelta(seconds=seconds)

    steps = walk(zone, edge - WINDOW, edge + WINDOW, timedelta(minutes=1))
    second = second_of(pattern)
    expected = next((at + second for at, local in steps if at + second > from_time and shows(pattern, local)), None)

    found = calculate_next_run(pattern, from_time, zone)
    assert found.tzinfo is UTC
    assert found > from_time
    if expected is None:
        assert found > edge + WINDOW
        assert shows(pattern, found.astimezone(ZoneInfo(zone)))
    else:
        assert found == expected


@pytest.mark.parametrize(("zone", "year"), YEARS)
@pytest.mark.parametrize(
    "pattern",
    [
        HourlySchedule(minute=45),
        DailySchedule(time=time(0, 30)),
        DailySchedule(time=time(2, 15)),
        WeeklySchedule(days=(Weekday.FRIDAY, Weekday.SUNDAY), time=time(1, 30)),
        MonthlySchedule(day=31, time=time(2, 30)),
        MonthlySchedule(day=30, time=time(10)),
    ],
    ids=str,
)
def test_each_slot_of_a_year_comes_exactly_once(pattern: CalendarPattern, zone: str, year: int) -> None:
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    steps = walk(zone, start, end, timedelta(minutes=15))
    expected = [at for at, local in steps if shows(pattern, local)]

    just_before = start - timedelta(microseconds=1)
    assert missed_slots(pattern, calculate_next_run(pattern, just_before, zone), end, zone, 10_000) == expected


@given(
    any_instant,
    st.timezones(),
    st.integers(1, 31),
    st.times(),
)
def test_any_instant_in_any_zone_has_a_later_run_with_the_wanted_wall_clock(
    from_time: datetime, zone: ZoneInfo, day: int, mark: time
) -> None:
    found = calculate_next_run(MonthlySchedule(day=day, time=mark), from_time, str(zone))
    local = found.astimezone(zone)
    assert found.tzinfo is UTC
    assert found > from_time.astimezone(UTC)
    assert (local.day, local.time(), local.fold) == (day, mark, 0)


@given(
    st.integers(1, 86_400),
    st.integers(1, 1440),
    any_instant,
)
def test_an_interval_counts_elapsed_time_whatever_the_clocks_do(seconds: int, minutes: int, start: datetime) -> None:
    pattern = IntervalSchedule(seconds=seconds, minutes=minutes)
    found = calculate_next_run(pattern, start, "Europe/Berlin")
    assert found - start.astimezone(UTC) == timedelta(seconds=seconds, minutes=minutes)
    assert found.tzinfo is UTC


def berlin(*fields: int, fold: int = 0) -> datetime:
    return datetime(*fields, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)  # type: ignore[misc, arg-type]


def test_the_second_showing_cannot_be_chosen_by_a_fold_in_the_pattern() -> None:
    daily = DailySchedule(time=time(2, 30, fold=1))
    found = calculate_next_run(daily, berlin(2024, 10, 26, 12), "Europe/Berlin")
    assert found == datetime(2024, 10, 27, 0, 30, tzinfo=UTC)


def test_29_february_is_a_day_of_leap_years_only() -> None:
    monthly = MonthlySchedule(day=29, time=time(12))
    assert calculate_next_run(monthly, datetime(2025, 1, 30, tzinfo=UTC)).date() == date(2025, 3, 29)
    assert calculate_next_run(monthly, datetime(2024, 1, 30, tzinfo=UTC)).date() == date(2024, 2, 29)


def test_marks_that_never_come_end_the_search() -> None:
    class Never:
        def rhythm(self) -> Rhythm:
            return WallClock((time(12),), day_of_month=32)

    with pytest.raises(ValueError, match="no run in the 400 days after 2025-01-01"):
        calculate_next_run(Never(), datetime(2025, 1, 1, tzinfo=UTC))


def test_a_naive_time_is_refused() -> None:
    hourly, aware = HourlySchedule(minute=0), datetime(2025, 1, 1, tzinfo=UTC)
    naive = aware.replace(tzinfo=None)
    with pytest.raises(ValueError, match="has no time zone"):
        calculate_next_run(hourly, naive)
    with pytest.raises(ValueError, match="has no time zone"):
        missed_slots(hourly, naive, aware, "UTC", 1)
    with pytest.raises(ValueError, match="has no time zone"):
        missed_slots(hourly, aware, naive, "UTC", 1)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("utc", "UTC"),
        ("America", "is not a known time zone"),
        ("", "use an IANA name"),
        ("../etc/passwd", "is not a known time zone"),
        ("a\0b", "is not a known time zone"),
        ("Q" * 300, "use an IANA name"),
    ],
)
def test_an_unknown_zone_is_a_value_error_with_the_likely_spelling(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        calculate_next_run(HourlySchedule(minute=0), datetime(2025, 1, 1, tzinfo=UTC), name)


def test_missed_slots_stop_at_the_limit_with_the_oldest() -> None:
    first = datetime(2020, 1, 1, tzinfo=UTC)
    slots = missed_slots(IntervalSchedule(seconds=1), first, datetime(2025, 1, 1, tzinfo=UTC), "UTC", 3)
    assert slots == [first, first + timedelta(seconds=1), first + timedelta(seconds=2)]


def test_a_slot_in_the_future_is_not_missed() -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    assert missed_slots(HourlySchedule(minute=0), now + timedelta(seconds=1), now, "UTC", 100) == []


def test_missed_slots_are_in_utc_whatever_zone_the_stored_slot_came_in() -> None:
    slots = missed_slots(HourlySchedule(minute=0), berlin(2024, 7, 1, 12), berlin(2024, 7, 1, 13), "Europe/Berlin", 9)
    assert [(slot.hour, slot.tzinfo) for slot in slots] == [(10, UTC), (11, UTC)]


def test_a_schedule_runs_when_due_or_never_planned() -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    assert should_run_now(None, now)
    assert should_run_now(now, now)
    assert should_run_now(now - timedelta(seconds=1), now)
    assert not should_run_now(now + timedelta(microseconds=1), now)


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
