"""The application of test_codec_hostile.py: what its signatures declare leaves no trace, and all the rest would."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import hostile_shop.loaded
from hostile_shop import leave_a_trace

from horsies import (
    AppConfig,
    Horsies,
    IntervalSchedule,
    PostgresConfig,
    ScheduleConfig,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    TaskSchedule,
    WorkflowContext,
    WorkflowDefinition,
    WorkflowSpec,
)

assert hostile_shop.loaded

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        schedule=ScheduleConfig(
            schedules=[TaskSchedule(name="yearly", task_name="tight", args=(1,), pattern=IntervalSchedule(days=365))]
        ),
    )
)


@dataclass
class Order:
    number: int


@dataclass
class Refund:
    """Declared, but by one task only."""

    number: int = 1

    def __post_init__(self) -> None:
        leave_a_trace("a class of another signature was made")


@app.storable
@dataclass
class Gift:
    number: int


@app.task("tight")
def tight(value: Order | int = 1) -> TaskResult[Order | int, TaskError]:
    return TaskResult(ok=value)


@app.task("open")
def open_(value: Any = None, **more: Any) -> TaskResult[Any, TaskError]:
    return TaskResult(ok=type(value).__name__)


@app.task("refund")
def refund(value: Refund | None = None) -> TaskResult[int, TaskError]:
    return TaskResult(ok=1)


@app.task("of_result")
def of_result(value: TaskResult[Order, TaskError]) -> TaskResult[str, TaskError]:
    return TaskResult(ok=str(value.err.error_code) if value.err is not None else type(value.ok_value).__name__)


@app.task("of_context")
def of_context(workflow_ctx: WorkflowContext | None = None) -> TaskResult[list[str], TaskError]:
    assert workflow_ctx is not None
    results = [str(result.err.error_code) for result in workflow_ctx.results_by_id.values() if result.err is not None]
    return TaskResult(ok=[*results, *(type(one.output).__name__ for one in workflow_ctx.summaries_by_id.values())])


@app.task("loaded_modules")
def loaded_modules() -> TaskResult[list[str], TaskError]:
    return TaskResult(ok=[name for name in sys.modules if name.startswith("hostile_shop")])


class Child(WorkflowDefinition[int]):
    name = "child"
    definition_key = "hostile.child"

    @classmethod
    def build_with(cls, app: Any, value: Order | int = 1) -> WorkflowSpec[int]:
        return app.workflow("child", [TaskNode(tight, kwargs={"value": 1})], definition_key=cls.definition_key)  # type: ignore[no-any-return]


@app.workflow_builder()
def parent() -> WorkflowSpec[Any]:
    first = TaskNode(tight, kwargs={"value": 1}, node_id="first")
    child = SubWorkflowNode(Child, kwargs={"value": 1}, waits_for=[first], node_id="child", allow_failed_deps=True)
    return app.workflow("parent", [first, child], output=first, definition_key="hostile.parent")
