"""The application of test_which_database_worker.py: its own database comes from OWN_URL, and answers nothing there."""

from __future__ import annotations

import os

from horsies import (
    AppConfig,
    Horsies,
    IntervalSchedule,
    PostgresConfig,
    ScheduleConfig,
    TaskError,
    TaskResult,
    TaskSchedule,
)

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["OWN_URL"]),
        schedule=ScheduleConfig(
            schedules=[TaskSchedule(name="often", task_name="receive", pattern=IntervalSchedule(seconds=1), args=(0,))]
        ),
    )
)

if os.environ.get("READS_AT_IMPORT"):  # before the worker can name its database
    app.get_broker().get_task_info("none").unwrap()


@app.task("receive")
def receive(number: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=number)


@app.task("pass_on")
def pass_on(number: int) -> TaskResult[str, TaskError]:
    return TaskResult(ok=receive.send_or_raise(number).task_id)
