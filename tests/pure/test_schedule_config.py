"""The ranges and rules of schedules as users write them, and the hash of a plan."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, time
from typing import Any

import pytest
from pydantic import ValidationError

from horsies.config.schedule import (
    DailySchedule,
    HourlySchedule,
    IntervalSchedule,
    MonthlySchedule,
    ScheduleConfig,
    SchedulePattern,
    TaskSchedule,
    WeeklySchedule,
    config_hash,
)
from horsies.domain.errors import ConfigurationError, ConfigurationErrors, ErrorCode
from horsies.domain.schedule_times import Weekday


def nightly(**changes: Any) -> TaskSchedule:
    return TaskSchedule(**{"name": "nightly", "task_name": "clean", "pattern": DailySchedule(time=time(3)), **changes})


@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (lambda number: IntervalSchedule(seconds=number), (1, 86_400), (0, -1, 86_401)),
        (lambda number: IntervalSchedule(minutes=number), (1, 1440), (0, -1, 1441)),
        (lambda number: IntervalSchedule(hours=number), (1, 168), (0, -1, 169)),
        (lambda number: IntervalSchedule(days=number), (1, 365), (0, -1, 366)),
        (lambda number: HourlySchedule(minute=number), (0, 59), (-1, 60)),
        (lambda number: HourlySchedule(minute=0, second=number), (0, 59), (-1, 60)),
        (lambda number: HourlySchedule(second=number), (), (0,)),
        (lambda number: MonthlySchedule(day=number, time=time(1)), (1, 31), (0, 32, -1)),
        (lambda number: nightly(max_catch_up_runs=number), (1, 10_000), (0, 10_001)),
        (lambda number: nightly(name="ä" * number), (1, 255), (0, 256)),
        (lambda number: nightly(task_name="ä" * number), (1, 255), (0, 256)),
        (lambda number: ScheduleConfig(check_interval_seconds=number), (1, 60), (0, 61)),
    ],
)
def test_numbers_and_names_have_their_ranges(
    make: Callable[[int], object], good: tuple[int, ...], bad: tuple[int, ...]
) -> None:
    for number in good:
        make(number)
    for number in bad:
        with pytest.raises(ValidationError):
            make(number)


def test_interval_units_add_up() -> None:
    assert IntervalSchedule(seconds=4, minutes=3, hours=2, days=1).total_seconds() == 93_784


def test_an_interval_needs_at_least_one_time_unit() -> None:
    with pytest.raises(ConfigurationError, match="at least one time unit") as caught:
        IntervalSchedule()
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE
    assert caught.value.help_text
    assert isinstance(caught.value, ValueError)


def test_weekly_takes_names_of_days_but_none_twice() -> None:
    assert WeeklySchedule(days=["monday", Weekday.SUNDAY], time=time(1)).days == (Weekday.MONDAY, Weekday.SUNDAY)
    with pytest.raises(ConfigurationError, match="duplicate weekdays: monday") as caught:
        WeeklySchedule(days=["monday", "friday", "monday"], time=time(1))
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE


@pytest.mark.parametrize(
    ("pattern", "fields"),
    [(DailySchedule, {}), (WeeklySchedule, {"days": ["monday"]}), (MonthlySchedule, {"day": 1})],
)
def test_a_time_of_day_has_no_zone_of_its_own(
    pattern: type[DailySchedule | WeeklySchedule | MonthlySchedule], fields: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match="its own time zone") as caught:
        pattern(time=time(3, tzinfo=UTC), **fields)
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE


def test_all_broken_rules_of_a_pattern_come_together() -> None:
    with pytest.raises(ConfigurationErrors) as caught:
        WeeklySchedule(days=["monday", "monday"], time=time(3, tzinfo=UTC))
    assert len(caught.value.report.errors) == 2


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (IntervalSchedule(hours=1), "interval"),
        (HourlySchedule(minute=1), "hourly"),
        (DailySchedule(time=time(1)), "daily"),
        (WeeklySchedule(days=["monday"], time=time(1)), "weekly"),
        (MonthlySchedule(day=1, time=time(1)), "monthly"),
    ],
)
def test_a_pattern_is_told_by_its_type_frozen_and_closed(pattern: SchedulePattern, name: str) -> None:
    assert pattern.type == name
    assert nightly(pattern=pattern).pattern is pattern
    assert nightly(pattern=pattern.model_dump()).pattern == pattern
    with pytest.raises(ValidationError):
        pattern.type = name  # type: ignore[misc]
    with pytest.raises(ValidationError):
        type(pattern)(**{**pattern.model_dump(), "extra": 1})
    with pytest.raises(ValidationError):
        type(pattern)(**{**pattern.model_dump(), "type": "cron"})


def test_an_unknown_zone_names_the_schedule_and_the_likely_spelling() -> None:
    with pytest.raises(ConfigurationError, match=r"'nightly'.*Europe/Berln.*did you mean Europe/Berlin") as caught:
        nightly(timezone="Europe/Berln")
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE
    assert nightly(timezone="Europe/Berlin").timezone == "Europe/Berlin"


def test_a_schedule_refuses_unknown_fields_and_patterns() -> None:
    with pytest.raises(ValidationError):
        nightly(cron="* * * * *")
    with pytest.raises(ValidationError):
        nightly(pattern={"type": "cron"})


def test_a_broken_pattern_inside_a_schedule_keeps_its_code() -> None:
    with pytest.raises(ConfigurationError, match="at least one time unit") as caught:
        nightly(pattern={"type": "interval"})
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE


def test_duplicate_schedule_names_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="duplicate schedule names: nightly") as caught:
        ScheduleConfig(schedules=[nightly(), nightly(task_name="other"), nightly(name="weekly")])
    assert caught.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE


def test_all_broken_schedules_of_a_config_come_together() -> None:
    broken = [
        {"name": name, "task_name": "t", "pattern": {"type": "hourly", "minute": 0}, "timezone": "Mars/Base"}
        for name in ("one", "two")
    ]
    with pytest.raises(ConfigurationErrors) as caught:
        ScheduleConfig(schedules=broken)
    assert ["'one'" in error.message or "'two'" in error.message for error in caught.value.report.errors] == [True] * 2


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (IntervalSchedule(seconds=2), "2560ffe4c36abc354e6a889b914eb58d7b6d085a81ffde4bfe4f66e8ef26abce"),
        (DailySchedule(time=time(2, 30)), "67927899798b098c0d16edeeb5310205bbe9816cbb37da65849d8e203b1c2524"),
    ],
)
def test_config_hash_matches_the_vectors(pattern: SchedulePattern, expected: str) -> None:
    assert config_hash(nightly(pattern=pattern)) == expected


def test_config_hash_follows_pattern_and_zone_only() -> None:
    plain = config_hash(nightly())
    assert config_hash(nightly(name="other", task_name="t", args=(1,), enabled=False, catch_up_missed=True)) == plain
    assert config_hash(nightly(timezone="Europe/Berlin")) != plain
    assert config_hash(nightly(pattern=DailySchedule(time=time(3, 1)))) != plain
    weekly = {config_hash(nightly(pattern=WeeklySchedule(days=[day], time=time(3)))) for day in Weekday}
    assert len(weekly) == 7


@pytest.mark.parametrize(
    "names", [{"queue_name": "x" * 200}, {"queue_name": "q\0"}, {"name": "a\0"}, {"name": "  "}, {"task_name": "a\nb"}]
)
def test_a_schedule_takes_no_name_that_the_database_would_refuse_later(names: dict[str, str]) -> None:
    given = {"name": "nightly", "task_name": "report", "pattern": IntervalSchedule(hours=1), **names}
    with pytest.raises(ConfigurationError, match="HRS-205"):
        TaskSchedule(**given)
