"""What a due schedule sends, and what keeps a scheduler from starting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    IntervalSchedule,
    PostgresConfig,
    QueueMode,
    RetryPolicy,
    ScheduleConfig,
    TaskError,
    TaskResult,
    TaskSchedule,
)
from horsies.config.schedule import DailySchedule
from horsies.domain.errors import HorsiesError
from horsies.task.scheduled import ScheduledTask, schedules_of

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def app_with(*schedules: TaskSchedule, queues: bool = False) -> Horsies:
    broker = PostgresConfig(database_url="postgresql://u@db/app")
    more: dict[str, Any] = {}
    if queues:
        listed = [CustomQueueConfig(name="default", priority=50), CustomQueueConfig(name="urgent", priority=1)]
        more = {"queue_mode": QueueMode.CUSTOM, "custom_queues": listed}
    app = Horsies(AppConfig(broker=broker, schedule=ScheduleConfig(schedules=list(schedules)), **more))
    options: dict[str, Any] = {"queue_name": "default"} if queues else {}

    @app.task("report", retry_policy=RetryPolicy.fixed([5], auto_retry_for=["BUSY"]), **options)
    def report(day: int, *, loud: bool = False) -> TaskResult[int, TaskError]:
        return TaskResult(ok=day)

    return app


def every(seconds: int, **more: Any) -> TaskSchedule:
    return TaskSchedule(
        **{"name": "often", "task_name": "report", "pattern": IntervalSchedule(seconds=seconds), "args": (1,), **more}
    )


def planned(schedule: TaskSchedule, *, queues: bool = False) -> ScheduledTask:
    app = app_with(schedule, queues=queues)
    (one,) = schedules_of(app, app.tasks)
    assert isinstance(one, ScheduledTask)
    return one


def test_a_slot_always_makes_the_same_row() -> None:
    one = planned(every(1, kwargs={"loud": True}))
    row = one.at(NOON)
    assert row == planned(every(1, kwargs={"loud": True})).at(NOON)
    assert (row.sent_at, row.args_json, row.kwargs_json, row.queue_name, row.priority) == (
        *(NOON, "[1]", '{"loud":true}', "default", 100),
    )
    assert row.task_options is not None
    assert "BUSY" in row.task_options
    assert {row.task_id, row.enqueue_sha}.isdisjoint({one.at(NOON + SECOND).task_id, one.at(NOON + SECOND).enqueue_sha})


def test_the_queue_of_the_schedule_comes_first_with_its_priority() -> None:
    assert planned(every(1), queues=True).at(NOON)[4:6] == ("default", 50)
    assert planned(every(1, queue_name="urgent"), queues=True).at(NOON)[4:6] == ("urgent", 1)


def test_a_missed_slot_runs_once_and_the_interval_keeps_its_grid() -> None:
    late = NOON + timedelta(seconds=34.5)
    assert planned(every(10)).due_slots(NOON, late) == ([NOON], NOON + 40 * SECOND)


def test_an_interval_that_stood_still_for_a_year_is_planned_at_once() -> None:
    slots, following = planned(every(1)).due_slots(NOON, NOON + timedelta(days=365.5, milliseconds=300))
    assert (slots, following) == ([NOON], NOON + timedelta(days=365.5, seconds=1))


def test_catching_up_sends_each_missed_slot_up_to_the_limit() -> None:
    one = planned(every(10, catch_up_missed=True, max_catch_up_runs=3))
    assert one.due_slots(NOON, NOON + 15 * SECOND) == ([NOON, NOON + 10 * SECOND], NOON + 20 * SECOND)
    slots, following = one.due_slots(NOON, NOON + 99 * SECOND)
    assert (slots, following) == ([NOON, NOON + 10 * SECOND, NOON + 20 * SECOND], NOON + 30 * SECOND)


def test_a_schedule_that_was_never_planned_runs_now() -> None:
    daily = every(1, pattern=DailySchedule(time=datetime(2026, 1, 1, 3).time()))  # noqa: DTZ001 - a local time
    assert planned(daily).due_slots(None, NOON) == ([NOON], datetime(2026, 1, 3, 3, tzinfo=UTC))


@pytest.mark.parametrize(
    ("schedule", "code", "words"),
    [
        (every(1, task_name="reports"), "HRS-300", "task 'reports' is not registered"),
        (every(1, queue_name="urgent"), "HRS-205", "cannot specify queue_name in DEFAULT mode"),
        (every(1, args=()), "HRS-205", "day"),
        (every(1, args=("monday",)), "HRS-205", "day"),
        (every(1, kwargs={"louder": True}), "HRS-205", "louder"),
        (every(1, args=(object(),)), "HRS-205", "object"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_start(schedule: TaskSchedule, code: str, words: str) -> None:
    app = app_with(schedule)
    with pytest.raises(HorsiesError) as raised:
        schedules_of(app, app.tasks)
    assert (raised.value.code, raised.value.help_text is not None) == (code, True)
    assert raised.value.message.startswith(f"schedule {schedule.name!r}: ")
    assert words in raised.value.message


def test_a_schedule_that_is_off_is_neither_sent_nor_checked() -> None:
    app = app_with(every(1, enabled=False, task_name="unknown"))
    assert schedules_of(app, app.tasks) == []
