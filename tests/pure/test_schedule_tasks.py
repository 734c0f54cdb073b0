"""What a due schedule sends, what keeps a scheduler from starting, and the runs that are planned."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from schedule_scene import AT_HALF_PAST_TWO, EVERY_5_MIN, a_schedule

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
from horsies.config.schedule import (
    CronSchedule,
    DailySchedule,
    HourlySchedule,
    MonthlySchedule,
    SchedulePattern,
    WeeklySchedule,
)
from horsies.domain.errors import HorsiesError
from horsies.domain.schedule_times import WEEK, Weekday
from horsies.run import scheduler
from horsies.run.events import Events
from horsies.run.scheduler import ScheduleFailures
from horsies.task.scheduled import ScheduledTask, schedules_of
from horsies.views import next_runs

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


def test_an_interval_that_stood_still_for_a_year_is_planned_at_once() -> None:
    slots, following = planned(every(1)).due_slots(NOON, NOON + timedelta(days=365.5, milliseconds=300))
    assert (slots, following) == ([NOON], NOON + timedelta(days=365.5, seconds=1))


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


MIDDAY = datetime(2026, 11, 17, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def next_planned(count: int = 3, now: datetime = MIDDAY, **changes: Any) -> list[datetime]:
    return [run.at for run in next_runs(a_schedule(**changes), now, count)]


def test_an_interval_goes_on_from_the_run_that_is_planned() -> None:
    first = at("2026-11-17 12:03:07")
    assert next_planned(pattern=EVERY_5_MIN, next_run_at=first) == [first, first + HOUR / 12, first + HOUR / 6]


def test_an_overdue_interval_runs_once_and_then_in_step_with_its_slots() -> None:
    late = at("2026-11-17 11:40:00")
    assert next_planned(pattern=EVERY_5_MIN, next_run_at=late) == [
        late,
        at("2026-11-17 12:05:00"),
        at("2026-11-17 12:10:00"),
    ]


def test_one_that_catches_up_sends_every_missed_slot() -> None:
    late = at("2026-11-17 11:50:00")
    slots = next_planned(5, pattern=EVERY_5_MIN, next_run_at=late, catch_up_missed=True)
    assert slots == [late + number * HOUR / 12 for number in range(5)]


def test_a_paused_one_shows_the_runs_after_now() -> None:
    late = at("2026-11-17 11:40:00")
    slots = next_planned(2, pattern=EVERY_5_MIN, next_run_at=late, paused_at=MIDDAY)
    assert slots == [at("2026-11-17 12:05:00"), at("2026-11-17 12:10:00")]


def test_one_that_was_never_planned_counts_from_now() -> None:
    slots = next_planned(2, pattern=AT_HALF_PAST_TWO, next_run_at=None)
    assert slots == [at("2026-11-18 02:30:00"), at("2026-11-19 02:30:00")]


def test_a_change_of_the_clocks_is_marked_on_the_first_run_after_it() -> None:
    autumn = at("2026-10-24 10:00:00")
    row = a_schedule(pattern={"type": "daily", "time": "12:00:00"}, timezone=BERLIN, next_run_at=autumn)
    runs = next_runs(row, autumn - HOUR, 3)
    assert [run.at for run in runs] == [autumn, at("2026-10-25 11:00:00"), at("2026-10-26 11:00:00")]
    assert [run.shift for run in runs] == [0 * HOUR, -HOUR, 0 * HOUR]


def test_a_first_run_after_the_change_is_marked_too() -> None:
    row = a_schedule(pattern=AT_HALF_PAST_TWO, timezone=BERLIN, next_run_at=at("2027-03-29 00:30:00"))
    (run,) = next_runs(row, at("2027-03-27 12:00:00"), 1)
    assert run.shift == HOUR


def test_the_slot_that_is_skipped_is_said() -> None:
    skipped = at("2026-11-19 02:30:00")
    row = a_schedule(pattern=AT_HALF_PAST_TWO, next_run_at=at("2026-11-18 02:30:00"), skip_slot=skipped)
    assert [run.is_skipped for run in next_runs(row, MIDDAY, 3)] == [False, True, False]


def test_a_scheduler_that_looks_seldom_may_be_late_for_twice_as_long() -> None:
    late = a_schedule(next_run_at=MIDDAY - timedelta(seconds=90))
    seldom = a_schedule(next_run_at=MIDDAY - timedelta(seconds=90), check_interval_seconds=60)
    assert (late.overdue(MIDDAY), seldom.overdue(MIDDAY)) == (timedelta(seconds=90), None)


def test_no_more_runs_than_there_are() -> None:
    assert next_planned(definition=None, next_run_at=None) == []
    assert next_planned(definition=None, next_run_at=MIDDAY) == [MIDDAY]


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: now[0])
    return now


def test_a_schedule_that_fails_is_tried_again_at_a_rising_interval_of_a_minute_at_most(clock: list[float]) -> None:
    failures = ScheduleFailures(Events(logging.getLogger("test.quiet")))
    pauses = []
    for _ in range(9):
        failures.add("a", "no such queue")
        begin = clock[0]
        while failures.waits("a"):
            clock[0] += 0.5
        pauses.append(clock[0] - begin)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert not failures.waits("b")
    failures.add("a", "no such queue")
    failures.forget("a")
    assert not failures.waits("a")


def test_the_same_error_is_logged_ever_more_rarely_and_another_one_at_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = ScheduleFailures(Events(logging.getLogger("test.failures")))
    for _ in range(20):
        failures.add("a", "no such queue")
    failures.add("a", "no such table")
    failures.forget("a")
    failures.add("a", "no such table")
    logged = [(record.fields["error"], record.fields["failures"]) for record in caplog.records]  # type: ignore[attr-defined]
    assert logged == [
        *(("no such queue", count) for count in (1, 2, 4, 8, 16)),
        ("no such table", 1),
        ("no such table", 1),
    ]
