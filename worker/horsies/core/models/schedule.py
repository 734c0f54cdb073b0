"""The documented import path of schedules; they are defined in `horsies.config.schedule`."""

from horsies.config.schedule import (
    CronSchedule as CronSchedule,
    DailySchedule as DailySchedule,
    HourlySchedule as HourlySchedule,
    IntervalSchedule as IntervalSchedule,
    MonthlySchedule as MonthlySchedule,
    ScheduleConfig as ScheduleConfig,
    SchedulePattern as SchedulePattern,
    TaskSchedule as TaskSchedule,
    WeeklySchedule as WeeklySchedule,
    WorkflowSchedule as WorkflowSchedule,
)
from horsies.domain.schedule_times import Weekday as Weekday
