"""The application of the schedulers in test_scheduler*.py: schedules of a second; the database from the environment."""

from __future__ import annotations

import json
import os
import time
from typing import Any

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

MORE = json.loads(os.environ.get("TEST_SCHEDULE", "{}"))
FLOWS = json.loads(os.environ.get("TEST_FLOWS", "{}"))
"""The schedules of workflows, by name: what their `build_with` does besides."""

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
            + [
                WorkflowSchedule(
                    name=name,
                    workflow="tests.process.flow",
                    params={"name": name, "then": then},
                    pattern=IntervalSchedule(seconds=1),
                    catch_up_missed=True,
                )
                for name, then in FLOWS.items()
            ]
        ),
    )
)


@app.task("tick")
def tick(name: str) -> TaskResult[str, TaskError]:
    return TaskResult(ok=name)


class Flow(WorkflowDefinition[str]):
    name = "flow"
    definition_key = "tests.process.flow"
    built = 0

    @classmethod
    def build_with(cls, app: Any, *, name: str, then: str) -> Any:
        cls.built += 1
        if then != "go" and cls.built > 2 * len(FLOWS):  # checked, and prepared, at the start
            if then == "hang":
                time.sleep(3600)
            raise LookupError("no such day")
        return app.workflow(cls.name, [TaskNode(tick, kwargs={"name": name})], definition_key=cls.definition_key)
