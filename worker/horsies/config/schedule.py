"""The schedules that users write: the five patterns, one schedule, all schedules."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter

from horsies.config.rules import CheckedModel, broken
from horsies.domain.codec import dump_value
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.plain_text import why_not_a_name, why_not_a_queue_name, why_not_a_task_name
from horsies.domain.schedule_times import WEEK, Cron, Every, WallClock, Weekday, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterable

_invalid = partial(broken, ErrorCode.CONFIG_INVALID_SCHEDULE)
HOURS = range(24)


class IntervalSchedule(CheckedModel):
    """A fixed time after the last run; the units add up."""

    type: Literal["interval"] = "interval"
    seconds: int | None = Field(default=None, ge=1, le=86_400)
    minutes: int | None = Field(default=None, ge=1, le=1440)
    hours: int | None = Field(default=None, ge=1, le=168)
    days: int | None = Field(default=None, ge=1, le=365)

    def total_seconds(self) -> int:
        hours = 24 * (self.days or 0) + (self.hours or 0)
        minutes = 60 * hours + (self.minutes or 0)
        return 60 * minutes + (self.seconds or 0)

    def rhythm(self) -> Every:
        return Every(self.total_seconds())

    def words(self) -> str:
        units = (("d", self.days), ("h", self.hours), ("min", self.minutes), ("s", self.seconds))
        return f"every {' '.join(f'{count} {unit}' for unit, count in units if count)}"

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if self.total_seconds() == 0:
            yield _invalid("an interval needs at least one time unit", "set seconds, minutes, hours or days")


class HourlySchedule(CheckedModel):
    """A minute of every hour that local clocks show."""

    type: Literal["hourly"] = "hourly"
    minute: int = Field(ge=0, le=59)
    second: int = Field(default=0, ge=0, le=59)

    def rhythm(self) -> WallClock:
        return WallClock(tuple(dt.time(hour, self.minute, self.second) for hour in HOURS))

    def words(self) -> str:
        return f"hourly at :{self.minute:02}" + (f":{self.second:02}" if self.second else "")


class DailySchedule(CheckedModel):
    """Every day at this local time."""

    type: Literal["daily"] = "daily"
    time: dt.time

    def rhythm(self) -> WallClock:
        return WallClock((self.time,))

    def words(self) -> str:
        return f"daily {_short(self.time)}"

    def broken_rules(self) -> Iterable[ConfigurationError]:
        yield from _zone_in_time(self.time)


class WeeklySchedule(CheckedModel):
    """A local time on certain days of the week."""

    type: Literal["weekly"] = "weekly"
    days: tuple[Weekday, ...] = Field(min_length=1)
    time: dt.time

    def rhythm(self) -> WallClock:
        return WallClock((self.time,), weekdays=frozenset(self.days))

    def words(self) -> str:
        return f"weekly {_days(self.days)} {_short(self.time)}"

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if twice := _repeated(self.days):
            yield _invalid(f"duplicate weekdays: {', '.join(twice)}", "list each day once")
        yield from _zone_in_time(self.time)


class MonthlySchedule(CheckedModel):
    """A local time on a day of the month; months without that day are left out."""

    type: Literal["monthly"] = "monthly"
    day: int = Field(ge=1, le=31)
    time: dt.time

    def rhythm(self) -> WallClock:
        return WallClock((self.time,), day_of_month=self.day)

    def words(self) -> str:
        return f"monthly on day {self.day} {_short(self.time)}"

    def broken_rules(self) -> Iterable[ConfigurationError]:
        yield from _zone_in_time(self.time)


class CronSchedule(CheckedModel):
    """Five cron fields, in the schedule's time zone, with names of days and months, `L` and `#`."""

    type: Literal["cron"] = "cron"
    expression: str

    def rhythm(self) -> Cron:
        return Cron(self.expression)

    def words(self) -> str:
        return f"cron {self.expression}"

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if (problem := self.rhythm().problem()) is not None:
            help_text = "for example '30 2 * * mon-fri', or '*/5 * * * *'; IntervalSchedule counts in seconds"
            yield _invalid(f"cron expression {self.expression!r}: {problem}", help_text)


SchedulePattern: TypeAlias = (
    IntervalSchedule | HourlySchedule | DailySchedule | WeeklySchedule | MonthlySchedule | CronSchedule
)


_STORED_PATTERN: Final[TypeAdapter[SchedulePattern]] = TypeAdapter(
    Annotated[SchedulePattern, Field(discriminator="type")]
)


def stored_pattern(stored: object) -> SchedulePattern:
    """Read a pattern of horsies_schedules; ValueError if this release has no such pattern."""
    return _STORED_PATTERN.validate_python(stored)


# The primary key of horsies_schedule_state and the column horsies_tasks.task_name hold 255 characters.
StoredName: TypeAlias = Annotated[str, Field(min_length=1, max_length=255)]


class _Schedule(CheckedModel):
    """The fields of all schedules: a name, and the times at which they come due."""

    name: StoredName
    """Name by which the database knows the schedule: a renamed one is a new one."""
    pattern: Annotated[
        Annotated[SchedulePattern, Field(discriminator="type")],
        BeforeValidator(
            lambda pattern: CronSchedule(expression=pattern) if isinstance(pattern, str) else pattern,
            json_schema_input_type=SchedulePattern | str,
        ),
    ]
    """Times of the runs; a string is a cron expression."""
    enabled: bool = True
    """False switches the schedule off."""
    timezone: str = "UTC"
    """Time zone of the pattern, such as `Europe/Berlin`."""
    catch_up_missed: bool = False
    """Send each missed slot once a scheduler runs again; otherwise missed slots are merged into one run."""
    max_catch_up_runs: int = Field(default=100, ge=1, le=10_000)
    """Maximum number of missed slots that are sent at a time."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        try:
            zone_named(self.timezone)
        except ValueError as error:
            yield _invalid(f"schedule {self.name!r}: {error}", "zoneinfo.available_timezones() lists every name")
        for reason in filter(None, (why_not_a_name("schedule name", self.name), *self._unusable_names())):
            yield _invalid(f"schedule {self.name!r}: {reason}", "choose another name")

    def _unusable_names(self) -> Iterable[str | None]:
        return ()


class TaskSchedule(_Schedule):
    """One task, its arguments and the times at which it is sent."""

    if TYPE_CHECKING:  # for type checkers, pydantic's __init__ takes a field's own type alone, not what it is made of

        def __init__(
            self,
            *,
            name: str,
            pattern: SchedulePattern | str,
            task_name: str,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] = ...,
            queue_name: str | None = None,
            enabled: bool = True,
            timezone: str = "UTC",
            catch_up_missed: bool = False,
            max_catch_up_runs: int = 100,
        ) -> None: ...

    task_name: StoredName
    """Name of a registered task."""
    args: tuple[Any, ...] = ()
    """Its arguments by position."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Its arguments by name."""
    queue_name: str | None = None
    """Queue to send to, instead of the task's own."""

    @property
    def target(self) -> str:
        return self.task_name

    def _unusable_names(self) -> Iterable[str | None]:
        yield why_not_a_task_name(self.task_name)
        yield None if self.queue_name is None else why_not_a_queue_name(self.queue_name)


class WorkflowSchedule(_Schedule):
    """One workflow, the parameters of its `build_with`, and the times at which it is started."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            pattern: SchedulePattern | str,
            workflow: type[Any] | str,
            params: dict[str, Any] = ...,
            enabled: bool = True,
            timezone: str = "UTC",
            catch_up_missed: bool = False,
            max_catch_up_runs: int = 100,
        ) -> None: ...

    workflow: Annotated[StoredName, BeforeValidator(lambda workflow: getattr(workflow, "definition_key", workflow))]
    """A WorkflowDefinition, or its definition_key."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The arguments of its `build_with`."""

    @property
    def target(self) -> str:
        return self.workflow


def _kind_of_schedule(schedule: object) -> str:
    """Return the name of the class by which a dict is read."""
    if isinstance(schedule, dict):
        return "workflow" if "workflow" in schedule else "task"
    return "workflow" if isinstance(schedule, WorkflowSchedule) else "task"


Schedule: TypeAlias = TaskSchedule | WorkflowSchedule


class ScheduleConfig(CheckedModel):
    """All schedules of an application, and how often the scheduler checks them."""

    enabled: bool = True
    """False switches all schedules off."""
    schedules: list[
        Annotated[
            Annotated[TaskSchedule, Tag("task")] | Annotated[WorkflowSchedule, Tag("workflow")],
            Discriminator(_kind_of_schedule),
        ]
    ] = Field(default_factory=list)
    """Schedules of tasks and of workflows, in any order."""
    check_interval_seconds: int = Field(default=1, ge=1, le=60)
    """Seconds between two checks for due slots."""

    def broken_rules(self) -> Iterable[ConfigurationError]:
        if twice := _repeated(schedule.name for schedule in self.schedules):
            yield _invalid(
                f"duplicate schedule names: {', '.join(twice)}",
                "give each schedule its own name, by which its state is stored",
            )


def config_hash(schedule: Schedule) -> str:
    """Return a hash of the pattern and the zone: if it changes, the stored next run is no longer valid."""
    plan = {"pattern": dict(schedule.pattern), "timezone": schedule.timezone}
    return hashlib.sha256(dump_value(plan).encode()).hexdigest()


def _zone_in_time(time: dt.time) -> Iterable[ConfigurationError]:
    if time.tzinfo is not None:
        yield _invalid(f"the time {time} has its own time zone", "write a plain time, and set timezone of the schedule")


def _short(time: dt.time) -> str:
    """Format a time as 02:30, with seconds only if there are any."""
    return f"{time:%H:%M}" if not time.second and not time.microsecond else f"{time:%H:%M:%S}"


def _days(days: Iterable[Weekday]) -> str:
    """Format days as mon,wed,sun, or as mon-fri for three days or more in a row."""
    runs: list[list[int]] = []
    for number in sorted(WEEK.index(day) for day in days):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    names = [[WEEK[number][:3] for number in run] for run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run) for run in names)


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
