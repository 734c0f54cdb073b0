"""The application of the schedulers in test_scheduler*.py: schedules of a second; the database from the environment."""

from __future__ import annotations

import json
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

MORE = json.loads(os.environ.get("TEST_SCHEDULE", "{}"))

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        schedule=ScheduleConfig(
            schedules=[
                TaskSchedule(
                    **{
                        "name": name,
                        "task_name": "tick",
                        "pattern": IntervalSchedule(seconds=1),
                        "args": (name,),
                        **MORE,
                    }
                )
                for name in ("red", "green", "blue")
            ]
        ),
    )
)


@app.task("tick")
def tick(name: str) -> TaskResult[str, TaskError]:
    return TaskResult(ok=name)
