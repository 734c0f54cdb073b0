"""The application of test_workflow_api.py: tasks, definitions and workflows as users write them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horsies import (
    AppConfig,
    Horsies,
    NodeKey,
    PostgresConfig,
    RetryPolicy,
    SubWorkflowError,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowContext,
    WorkflowDefinition,
    WorkflowMeta,
    WorkflowSpec,
)

app = Horsies(AppConfig(broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"])))


@dataclass
class Parcel:
    weight: float
    label: str


@app.task("number")
def number(value: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value)


@app.task("twice")
def twice(value: TaskResult[int, TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value.ok_value * 2)


@app.task("total")
async def total(
    left: TaskResult[int, TaskError], right: TaskResult[int, TaskError] | None = None, extra: int = 0
) -> TaskResult[int, TaskError]:
    await asyncio.sleep(0)
    return TaskResult(ok=left.ok_value + (0 if right is None else right.ok_value) + extra)


@app.task("refuse")
def refuse() -> TaskResult[int, TaskError]:
    return TaskResult(err=TaskError(error_code="CARD_DECLINED", message="no", data={"limit": 5}))


@app.task("code_of")
def code_of(value: TaskResult[Any, TaskError]) -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"{type(value.err).__name__} {value.err.error_code}" if value.err else "ok")


@app.task("describe")
def describe(
    workflow_ctx: WorkflowContext | None = None, workflow_meta: WorkflowMeta | None = None
) -> TaskResult[dict[str, Any], TaskError]:
    assert workflow_ctx is not None
    assert workflow_meta is not None
    child: NodeKey[int] = NodeKey("child")
    summary = workflow_ctx.summary_for(child) if workflow_ctx.has_summary(child) else None
    return TaskResult(
        ok={
            "index": workflow_meta.task_index,
            "same": workflow_meta.workflow_id == workflow_ctx.workflow_id,
            "codes": {key: result.is_ok() for key, result in workflow_ctx.results_by_id.items()},
            "child": None if summary is None else [summary.status.value, summary.output, summary.total_tasks],
        }
    )


@app.task("judge")
def judge(child: TaskResult[int, TaskError]) -> TaskResult[str, TaskError]:
    """The example in the documentation for the failure of a child workflow."""
    match child.err:
        case SubWorkflowError(sub_workflow_id=found, sub_workflow_summary=summary):
            return TaskResult(ok=f"{found} {summary.status.value} {summary.failed_tasks} of {summary.total_tasks}")
        case other:
            return TaskResult(ok=f"not a SubWorkflowError: {other!r}")


@app.task("pack")
def pack(weight: float) -> TaskResult[Parcel, TaskError]:
    return TaskResult(ok=Parcel(weight, "x" * 200_000))


@app.task("weigh")
def weigh(parcel: TaskResult[Parcel, TaskError]) -> TaskResult[float, TaskError]:
    return TaskResult(ok=parcel.ok_value.weight + len(parcel.ok_value.label))


@app.task("numbers")
def numbers(count: int) -> TaskResult[list[int], TaskError]:
    return TaskResult(ok=list(range(count)))


@app.task("square")
def square(value: int, plus: int = 0) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value * value + plus)


@app.task("summed")
def summed(values: TaskResult[list[int], TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=sum(values.ok_value))


@app.task("flaky", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["TRY_AGAIN"], jitter=False))
def flaky(count_file: str, workflow_meta: WorkflowMeta | None = None) -> TaskResult[list[int], TaskError]:
    """Fails in its first run; counts its runs by the size of a file."""
    with Path(count_file).open("a") as file:
        file.write("x")
    runs = Path(count_file).stat().st_size
    if runs == 1:
        return TaskResult(err=TaskError(error_code="TRY_AGAIN"))
    return TaskResult(ok=[runs, -1 if workflow_meta is None else workflow_meta.task_index])


class Doubling(WorkflowDefinition[int]):
    name = "doubling"
    definition_key = "test.doubling.v1"
    first = TaskNode(fn=number, kwargs={"value": 21})
    second = TaskNode(fn=twice, waits_for=[first], args_from={"value": first})

    class Meta:
        output = "second"


class Counting(WorkflowDefinition[int]):
    """A child workflow whose nodes depend on its parameters."""

    name = "counting"
    definition_key = "test.counting.v1"

    @classmethod
    def build_with(cls, app: Any, *, start: TaskResult[int, TaskError], steps: int = 1) -> WorkflowSpec[int]:
        nodes: list[Any] = [TaskNode(fn=number, kwargs={"value": start.ok_value}, node_id="start")]
        for step in range(steps):
            before = nodes[-1]
            name = f"step{step}"
            nodes.append(TaskNode(fn=twice, waits_for=[before], args_from={"value": before}, node_id=name))
        spec: WorkflowSpec[int] = app.workflow(cls.name, nodes, output=nodes[-1], definition_key=cls.definition_key)
        return spec


class Failing(WorkflowDefinition[int]):
    name = "failing"
    definition_key = "test.failing.v1"
    good = TaskNode(fn=number, kwargs={"value": 1})
    bad = TaskNode(fn=refuse)

    class Meta:
        output = "bad"
