"""Schedules as users write them: ranges, rules, the hash of a plan; schedules that start workflows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from horsies import (
    AppConfig,
    Horsies,
    PostgresConfig,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowDefinition,
    WorkflowSchedule,
)
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
from horsies.lifecycle.scheduling import DueSchedule
from horsies.task.scheduled import ScheduledWorkflow, schedules_of


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


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Report(WorkflowDefinition[int]):
    name = "report"
    definition_key = "tests.schedule.report"

    @classmethod
    def build_with(cls, app: Any, *, day: int, loud: bool = False) -> Any:
        if day < 0:
            raise LookupError(f"no day {day}")
        return app.workflow(
            cls.name, [TaskNode(app.tasks["count"], kwargs={"day": day})], definition_key=cls.definition_key
        )


def app_with(*schedules: TaskSchedule | WorkflowSchedule) -> Horsies:
    broker = PostgresConfig(database_url="postgresql://u@db/app")
    app = Horsies(AppConfig(broker=broker, schedule=ScheduleConfig(schedules=list(schedules))))

    @app.task("count")
    def count(day: int) -> TaskResult[int, TaskError]:
        return TaskResult(ok=day)

    return app


def reporting(**more: Any) -> WorkflowSchedule:
    given = {"name": "r", "workflow": Report, "pattern": IntervalSchedule(minutes=1), "params": {"day": 7}, **more}
    return WorkflowSchedule(**given)


def planned(schedule: WorkflowSchedule) -> ScheduledWorkflow:
    app = app_with(schedule)
    (one,) = schedules_of(app, app.tasks)
    assert isinstance(one, ScheduledWorkflow)
    return one


def refusal(schedule: WorkflowSchedule) -> ConfigurationError:
    app = app_with(schedule)
    with pytest.raises(ConfigurationError) as raised:
        schedules_of(app, app.tasks)
    assert raised.value.code is ErrorCode.CONFIG_INVALID_SCHEDULE
    assert raised.value.message.startswith("schedule 'r': ")
    return raised.value


def test_a_slot_starts_the_workflow_under_the_same_id_in_every_process() -> None:
    one = planned(reporting(catch_up_missed=True))
    run = one.run_of(DueSchedule("r", NOON - MINUTE, one.hash, NOON))
    assert [use.slot for use in run.uses] == [NOON - MINUTE, NOON]
    ids = [use.workflow_id for use in run.uses]
    assert ids == [use.workflow_id for use in planned(reporting(catch_up_missed=True)).run_of(run.due).uses]
    assert len(set(ids)) == 2
    assert (run.tasks, run.sends) == ([], True)
    skipped = one.run_of(DueSchedule("r", NOON, one.hash, NOON, skip_slot=NOON))
    assert (skipped.sends, len(skipped.uses)) == (False, 1)


def test_a_tick_starts_at_most_twenty_workflows_of_a_schedule_that_catches_up() -> None:
    one = planned(reporting(catch_up_missed=True))
    run = one.run_of(DueSchedule("r", NOON - 60 * MINUTE, one.hash, NOON))
    assert (len(run.uses), run.next_run_at) == (20, NOON - 40 * MINUTE)


def test_its_definition_names_the_workflow_and_its_parameters() -> None:
    told = json.loads(planned(reporting()).definition)
    assert (told["kind"], told["target"], told["definition_key"]) == ("workflow", "report", "tests.schedule.report")
    assert (told["kwargs"], told["timezone"]) == ('{"day":7}', "UTC")


def test_its_plan_is_built_with_the_parameters_and_its_definition_may_be_named_by_its_key() -> None:
    plan = planned(reporting(workflow="tests.schedule.report")).plan()
    assert (plan.name, plan.definition_key, len(plan.nodes)) == ("report", "tests.schedule.report", 1)
    assert "7" in (plan.nodes[0].kwargs_json or "")


def test_a_dict_is_read_as_what_its_keys_say() -> None:
    pattern = {"type": "interval", "minutes": 1}
    given: list[Any] = [
        {"name": "w", "workflow": "key", "pattern": pattern},
        {"name": "t", "task_name": "count", "pattern": pattern},
    ]
    first, second = ScheduleConfig(schedules=given).schedules
    assert (type(first), type(second)) == (WorkflowSchedule, TaskSchedule)
    with pytest.raises(ConfigurationError, match="duplicate schedule names: w"):
        ScheduleConfig(schedules=[given[0], {**given[1], "name": "w"}])


def test_a_definition_that_is_not_known_is_refused_with_the_likely_key() -> None:
    error = refusal(reporting(workflow="tests.schedule.reprot"))
    assert error.message.endswith("no WorkflowDefinition has the key 'tests.schedule.reprot'")
    assert (error.help_text or "").startswith("did you mean 'tests.schedule.report'? Otherwise import its module")


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "argument: 'day'"),
        ({"day": 1, "night": 2}, "got an unexpected keyword argument 'night'"),
        ({"day": object()}, "object"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any], reason: str) -> None:
    error = refusal(reporting(params=params))
    assert "its params do not fit Report.build_with: " in error.message
    assert reason in error.message


def test_a_workflow_that_cannot_be_built_is_refused_at_the_start() -> None:
    assert "its workflow cannot be built: LookupError: no day -1" in refusal(reporting(params={"day": -1})).message
