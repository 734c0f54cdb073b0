"""A drain takes workflows to their end as a worker does: nodes, children, maps, retries; paused ones are left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from horsies import (
    AppConfig,
    Horsies,
    OnError,
    PostgresConfig,
    RetryPolicy,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowDefinition,
    WorkflowSpec,
    WorkflowStatus,
)
from horsies.testing import Ran, drain

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
tries: list[int] = []


@app.task("number")
def number(value: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value)


@app.task("twice")
def twice(value: TaskResult[int, TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value.ok_value * 2)


@app.task("plus")
def plus(value: int, more: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=value + more)


@app.task("numbers")
def numbers(count: int) -> TaskResult[list[int], TaskError]:
    return TaskResult(ok=list(range(count)))


@app.task("text")
def text() -> TaskResult[str, TaskError]:
    return TaskResult(ok="x" * 100_000)


@app.task("length")
def length(given: TaskResult[str, TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=len(given.ok_value))


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


@pytest.fixture(autouse=True)
def _on_a_database(database: str) -> Iterator[None]:
    tries.clear()
    config = app.config
    app.config = config.model_copy(update={"broker": PostgresConfig(database_url=database)})
    yield
    app.get_broker().close()
    app._broker = None
    app.config = config


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
