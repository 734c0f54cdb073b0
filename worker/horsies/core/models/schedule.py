"""The documented import path of schedules; they are defined in `horsies.config.schedule`."""

from __future__ import annotations

from horsies.config.schedule import (
    CronSchedule,
    DailySchedule,
    HourlySchedule,
    IntervalSchedule,
    MonthlySchedule,
    ScheduleConfig,
    SchedulePattern,
    TaskSchedule,
    WeeklySchedule,
    WorkflowSchedule,
)
from horsies.domain.schedule_times import Weekday

__all__ = [
    "CronSchedule",
    "DailySchedule",
    "HourlySchedule",
    "IntervalSchedule",
    "MonthlySchedule",
    "ScheduleConfig",
    "SchedulePattern",
    "TaskSchedule",
    "Weekday",
    "WeeklySchedule",
    "WorkflowSchedule",
]
