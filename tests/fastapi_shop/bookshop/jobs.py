"""The horsies application: the database, the queues, the schedule."""

import os

from horsies import (
    AppConfig,
    CustomQueueConfig,
    Horsies,
    IntervalSchedule,
    PostgresConfig,
    QueueMode,
    ScheduleConfig,
    TaskSchedule,
)

DATABASE_URL = os.environ.get("HORSIES_DATABASE_URL", "embedded://bookshop")

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=DATABASE_URL),
        queue_mode=QueueMode.CUSTOM,
        custom_queues=[
            CustomQueueConfig(name="shop", priority=10, max_concurrency=50),
            CustomQueueConfig(name="mail", priority=1, max_concurrency=2),
            CustomQueueConfig(name="reports", priority=50, max_concurrency=1),
        ],
        default_queue="shop",
        exception_mapper={ConnectionError: "NO_CONNECTION"},
        schedule=ScheduleConfig(
            schedules=[
                TaskSchedule(name="restock", task_name="restock", pattern=IntervalSchedule(seconds=2), args=("mug",)),
                TaskSchedule(name="nightly", task_name="takings", pattern="30 2 * * mon-fri", timezone="Europe/Berlin"),
            ]
        ),
    )
)

app.discover_tasks(["bookshop.tasks", "bookshop.workflows"])
