"""A pattern in a few plain words, as lists of schedules show it."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING

import pytest

from horsies.config.schedule import (
    CronSchedule,
    DailySchedule,
    HourlySchedule,
    IntervalSchedule,
    MonthlySchedule,
    WeeklySchedule,
)
from horsies.domain.schedule import WEEK, Weekday

if TYPE_CHECKING:
    from horsies.config.schedule import SchedulePattern

MONDAY, TUESDAY, *_, SATURDAY, SUNDAY = Weekday


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (IntervalSchedule(minutes=5), "every 5 min"),
        (IntervalSchedule(hours=1, minutes=30), "every 1 h 30 min"),
        (HourlySchedule(minute=5), "hourly at :05"),
        (HourlySchedule(minute=5, second=30), "hourly at :05:30"),
        (DailySchedule(time=time(2, 30)), "daily 02:30"),
        (DailySchedule(time=time(2, 30, 15)), "daily 02:30:15"),
        (WeeklySchedule(days=(SUNDAY, MONDAY, TUESDAY), time=time(6)), "weekly mon,tue,sun 06:00"),
        (WeeklySchedule(days=WEEK[:5], time=time(6)), "weekly mon-fri 06:00"),
        (WeeklySchedule(days=WEEK, time=time(6)), "weekly mon-sun 06:00"),
        (WeeklySchedule(days=(MONDAY, SATURDAY), time=time(6)), "weekly mon,sat 06:00"),
        (MonthlySchedule(day=31, time=time(23, 59)), "monthly on day 31 23:59"),
        (CronSchedule(expression="*/5 * * * *"), "cron */5 * * * *"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pattern_is_said_in_a_few_words(pattern: SchedulePattern, words: str) -> None:
    assert pattern.words() == words
