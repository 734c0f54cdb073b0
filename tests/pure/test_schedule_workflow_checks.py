"""Schedules that start workflows: what keeps a scheduler from starting, and what it stores of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horsies import (
    AppConfig,
    Horsies,
    IntervalSchedule,
    PostgresConfig,
    ScheduleConfig,
    TaskError,
    TaskNode,
    TaskResult,
    TaskSchedule,
    WorkflowDefinition,
    WorkflowSchedule,
)
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.lifecycle.scheduling import DueSchedule
from horsies.task.scheduled import ScheduledWorkflow, schedules_of

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


def test_the_check_of_an_application_finds_it_too() -> None:
    (error,) = app_with(reporting(params={})).check()
    assert "schedule 'r'" in error.message
