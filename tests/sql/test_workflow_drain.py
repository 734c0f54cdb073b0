"""A drain takes workflows to their end as a worker does: nodes, children, maps, retries; paused ones are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from horsies import (
    AppConfig,
    Horsies,
    NodeKey,
    OnError,
    OutcomeCode,
    PostgresConfig,
    RetryPolicy,
    SubWorkflowError,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowContext,
    WorkflowDefinition,
    WorkflowMeta,
    WorkflowSpec,
    WorkflowStatus,
)
from horsies.testing import Ran, drain
from horsies.testing.embedded import database_replaced

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
tries: list[int] = []


@app.task("number")
def number(value: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value)


@app.task("twice")
def twice(value: TaskResult[int, TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value.ok_value * 2)


@app.task("describe")
def describe(workflow_ctx: WorkflowContext, workflow_meta: WorkflowMeta) -> TaskResult[dict[str, Any], TaskError]:
    summary = workflow_ctx.summary_for(NodeKey[int]("child"))
    told = {
        "index": workflow_meta.task_index,
        "same": workflow_meta.workflow_id == workflow_ctx.workflow_id,
        "codes": {key: result.is_ok() for key, result in workflow_ctx.results_by_id.items()},
        "child": [summary.status.value, summary.output, summary.total_tasks],
    }
    return TaskResult(ok=told)


@app.task("judge")
def judge(child: TaskResult[int, TaskError]) -> TaskResult[str, TaskError]:
    """The example in the documentation for the failure of a child workflow."""
    match child.err:
        case SubWorkflowError(sub_workflow_id=found, sub_workflow_summary=summary):
            return TaskResult(ok=f"{found} {summary.status.value} {summary.failed_tasks} of {summary.total_tasks}")
        case other:
            return TaskResult(ok=f"not a SubWorkflowError: {other!r}")


@dataclass
class Parcel:
    weight: float
    label: str


@app.task("pack")
def pack(weight: float) -> TaskResult[Parcel, TaskError]:
    return TaskResult(ok=Parcel(weight, "x" * 200_000))


@app.task("weigh")
def weigh(parcel: TaskResult[Parcel, TaskError]) -> TaskResult[float, TaskError]:
    return TaskResult(ok=parcel.ok_value.weight + len(parcel.ok_value.label))


@app.task("refuse")
def refuse() -> TaskResult[int, TaskError]:
    return TaskResult(err=TaskError(error_code="CARD_DECLINED"))


@app.task("flaky", retry_policy=RetryPolicy.fixed([60], auto_retry_for=["AGAIN"], jitter=False))
def flaky() -> TaskResult[int, TaskError]:
    tries.append(1)
    return TaskResult(ok=len(tries)) if len(tries) > 1 else TaskResult(err=TaskError(error_code="AGAIN"))


class Doubling(WorkflowDefinition[int]):
    name = "doubling"
    definition_key = "test.drain.doubling"
    first = TaskNode(number, kwargs={"value": 4})
    second: TaskNode[int] = TaskNode(twice, waits_for=[first], args_from={"value": first})

    class Meta:
        output = "second"


class Failing(WorkflowDefinition[int]):
    name = "failing"
    definition_key = "test.drain.failing"
    good = TaskNode(number, kwargs={"value": 1})
    bad = TaskNode(refuse)

    class Meta:
        output = "bad"


@pytest.fixture(autouse=True)
def _on_a_database(database: str) -> Iterator[None]:
    tries.clear()
    with database_replaced(app, database):
        yield


def flow(*nodes: object, **options: object) -> WorkflowSpec[object]:
    return app.workflow("flow", list(nodes), definition_key="test.drain.flow", **options)


@pytest.mark.parametrize("processes", [0, 1])
def test_a_drain_goes_on_until_the_workflow_has_ended(processes: int) -> None:
    first = TaskNode(number, kwargs={"value": 3})
    second = TaskNode(twice, waits_for=[first], args_from={"value": first})
    child = SubWorkflowNode(Doubling, waits_for=[second])
    last = TaskNode(twice, waits_for=[child], args_from={"value": child})
    handle = flow(first, second, child, last, output=last).start().unwrap()
    assert drain(app, processes=processes) == Ran(completed=5)
    assert handle.get(0).unwrap() == 16


def test_a_retry_that_falls_due_within_the_time_is_part_of_it() -> None:
    first = TaskNode(flaky)
    last = TaskNode(twice, waits_for=[first], args_from={"value": first})
    handle = flow(first, last, output=last).start().unwrap()
    assert drain(app) == Ran(retried=1)
    assert drain(app, seconds=60) == Ran(completed=2)
    assert handle.get(0).unwrap() == 4


@pytest.mark.parametrize("processes", [0, 1])
def test_what_waits_in_a_paused_workflow_keeps_no_drain_waiting(processes: int) -> None:
    handle = flow(TaskNode(refuse), TaskNode(number, kwargs={"value": 1}), on_error=OnError.PAUSE).start().unwrap()
    assert handle.pause().unwrap()
    assert drain(app, processes=processes) == Ran()
    handle.resume()
    assert drain(app, processes=processes).failed == 1
    assert handle.status().unwrap() is WorkflowStatus.PAUSED


def test_what_nodes_are_given_arrives_in_a_child_process() -> None:
    """A context, the error of a sub-workflow in its own class, and a value that is too large to be copied."""
    good, bad = TaskNode(number, {"value": 1}, node_id="good"), TaskNode(refuse, node_id="bad")
    child, failing = SubWorkflowNode(Doubling, node_id="child"), SubWorkflowNode(Failing, node_id="failing")
    read: list[Any] = [good, bad, child]
    told = TaskNode(describe, waits_for=read, workflow_ctx_from=read, allow_failed_deps=True, node_id="told")
    judged = TaskNode(
        judge, waits_for=[failing], args_from={"child": failing}, allow_failed_deps=True, node_id="judged"
    )
    packed = TaskNode(pack, {"weight": 0.5}, node_id="packed")
    weighed = TaskNode(weigh, waits_for=[packed], args_from={"parcel": packed}, node_id="weighed")
    handle = flow(*read, told, failing, judged, packed, weighed).start().unwrap()
    drain(app, processes=1)
    codes = {"good": True, "bad": False, "child": True}
    expected = {"index": 3, "same": True, "codes": codes, "child": ["COMPLETED", 8, 2]}
    assert handle.result_for(told).ok_value == expected
    sub_workflow_id = next(info.sub_workflow_id for info in handle.tasks().unwrap() if info.node_id == "failing")
    assert handle.result_for(judged) == TaskResult(ok=f"{sub_workflow_id} FAILED 1 of 2")
    error = handle.result_for(failing).err_value
    assert isinstance(error, SubWorkflowError)
    assert (error.error_code, error.sub_workflow_id) == (OutcomeCode.SUBWORKFLOW_FAILED, sub_workflow_id)
    assert handle.result_for(weighed) == TaskResult(ok=200_000.5)
    assert handle.result_for(packed).ok_value.weight == 0.5
