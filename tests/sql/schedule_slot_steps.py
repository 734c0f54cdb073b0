"""Steps for tests of schedules: what an application defines, planned, due and overdue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from horsies import AppConfig, Horsies, IntervalSchedule, PostgresConfig, RetryPolicy, ScheduleConfig, TaskSchedule
from horsies.domain.task_result import TaskError, TaskResult
from horsies.lifecycle.scheduling import ScheduleAdvance, due, register
from horsies.task.scheduled import Scheduled, ScheduledTask, schedules_of

SECOND = timedelta(seconds=1)


def application(schedules: ScheduleConfig) -> Horsies:
    broker = PostgresConfig(database_url="postgresql://u@db/app")
    app = Horsies(AppConfig(broker=broker, schedule=schedules))

    @app.task("report", retry_policy=RetryPolicy.fixed([5, 6], auto_retry_for=["BUSY"]))
    def report(day: int) -> TaskResult[int, TaskError]:
        return TaskResult(ok=day)

    return app


def scheduled(*schedules: TaskSchedule) -> dict[str, ScheduledTask]:
    app = application(ScheduleConfig(schedules=list(schedules)))
    found = schedules_of(app, app.tasks)
    return {one.name: one for one in found if isinstance(one, ScheduledTask)}


def every(name: str, seconds: int = 10, **more: Any) -> TaskSchedule:
    pattern = IntervalSchedule(seconds=seconds)
    return TaskSchedule(name=name, task_name="report", pattern=pattern, **{"args": (1,), **more})


async def plan(connection: asyncpg.Connection, schedules: Mapping[str, Scheduled], *, starts: bool = True) -> set[str]:
    return (await register(connection, schedules, starts=starts))[1]


async def ready(connection: asyncpg.Connection, schedules: dict[str, ScheduledTask]) -> list[ScheduleAdvance]:
    return [schedules[one.name].run_of(one) for one in await due(connection, schedules)]


async def due_now(connection: asyncpg.Connection, one: Scheduled) -> ScheduleAdvance:
    """The run of a schedule that is due."""
    (found,) = await due(connection, [one.name])
    return one.run_of(found)


async def overdue(connection: asyncpg.Connection, seconds: float, name: str = "a") -> datetime:
    sql = "UPDATE horsies_schedule_state SET next_run_at = now() - $1 * interval '1 s' WHERE schedule_name = $2"
    slot: datetime = await connection.fetchval(f"{sql} RETURNING next_run_at", seconds, name)
    return slot


async def state(connection: asyncpg.Connection, name: str = "a") -> asyncpg.Record:
    row = await connection.fetchrow("SELECT * FROM horsies_schedule_state WHERE schedule_name = $1", name)
    assert row is not None
    return row
