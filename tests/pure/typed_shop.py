"""User code as type checkers see it: each value has the type that a reader expects.

mypy checks this file with all others. pyright in strict mode must find nothing either: `basedpyright -p
tests/pure/pyrightconfig.json`; its wheel, 200 MB, is too large to be installed for every run of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_never, assert_type
from uuid import UUID

from horsies import (  # noqa: F401 - named in texts
    AppConfig,
    Err,
    Horsies,
    MapNode,
    NodeKey,
    Ok,
    PostgresConfig,
    Result,
    RetryPolicy,
    SubWorkflowNode,
    TaskError,
    TaskHandle,
    TaskInfo,
    TaskNode,
    TaskResult,
    TaskSendError,
    TaskStatus,
    WorkflowContext,
    WorkflowDefinition,
    WorkflowHandle,
    WorkflowSpec,
    WorkflowStartError,
    WorkflowStatus,
    WorkflowTaskInfo,
    from_node,
    is_err,
    is_ok,
)
from horsies.domain.errors import HorsiesError
from horsies.hooks import TaskFailed, TaskRetried, WorkerStarted
from horsies.testing import Inline, InlineTask, InlineWorkflow, Ran, drain, inline

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/nowhere")))
failures: list[str] = []


@dataclass
class Line:
    sku: str
    amount: Decimal


@app.task("total", retry_policy=RetryPolicy.fixed([1], auto_retry_for=["TASK_TIMEOUT"]), timeout_ms=60_000)
def total(lines: list[Line], *, order: UUID | None = None) -> TaskResult[Decimal, TaskError]:
    return TaskResult(ok=sum((line.amount for line in lines), Decimal(0)))


@app.task("greet")
async def greet(name: str) -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"Hello {name}") if name else TaskResult(err=TaskError(error_code="NO_NAME"))


@app.task("sizes")
def sizes(upto: int) -> TaskResult[list[int], TaskError]:
    return TaskResult(ok=list(range(upto)))


@app.task("double")
def double(size: TaskResult[int, TaskError] | int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=2 * (size if isinstance(size, int) else size.unwrap()))


@app.task("report")
def report(
    greeting: TaskResult[str, TaskError], workflow_ctx: WorkflowContext | None = None
) -> TaskResult[str, TaskError]:
    if workflow_ctx is not None:
        assert_type(workflow_ctx.result_for(Doubling.out), TaskResult[int, TaskError])
    return TaskResult(ok=greeting.unwrap())


# Calls and sends.


async def sends() -> None:
    lines = [Line("a", Decimal("1.5"))]
    assert_type(total(lines, order=None), TaskResult[Decimal, TaskError])
    assert_type(await greet("Ada"), TaskResult[str, TaskError])
    sent = total.send(lines, order=UUID(int=7))
    assert_type(sent, "Result[TaskHandle[Decimal], TaskSendError]")
    later = greet.with_options(delay=timedelta(seconds=1.5), queue=None, unique_key="one").send("Ada")
    assert_type(later, "Result[TaskHandle[str], TaskSendError]")
    assert_type(await greet.schedule_async(0.5, "Ada"), "Result[TaskHandle[str], TaskSendError]")
    assert_type(greet.send_or_raise("Ada"), "TaskHandle[str]")
    assert_type(await greet.send_or_raise_async("Ada"), "TaskHandle[str]")
    at = greet.with_options(at=datetime.now(UTC), timeout_ms=500)
    assert_type(await at.send_async("Ada"), "Result[TaskHandle[str], TaskSendError]")
    many = app.send_many([total.to_send(lines), greet.to_send("Ada")])
    assert_type(many, "list[Result[TaskHandle[Any], TaskSendError]]")
    if is_err(sent):
        assert_type(sent, "Err[TaskSendError]")
        assert_type(total.retry_send(sent.err_value), "Result[TaskHandle[Decimal], TaskSendError]")
    else:
        assert_type(sent.ok_value.get(), TaskResult[Decimal, TaskError])
        assert_type(await sent.ok_value.get_async(timeout_ms=100), TaskResult[Decimal, TaskError])


def looks(sent: Result[TaskHandle[str], TaskSendError]) -> str:
    match sent:
        case Ok(handle):
            assert_type(handle, "TaskHandle[str]")
            info = handle.info()
            if is_ok(info) and info.ok_value is not None:
                assert_type(info.ok_value, "TaskInfo")
                assert_type(info.ok_value.status, TaskStatus)
        case Err(reason):
            assert_type(reason, "TaskSendError")
            return reason.message
        case _:
            assert_never(sent)
    result = handle.get()
    if result.err is not None:
        assert_type(result.err, TaskError)
        return str(result.err.error_code)
    assert_type(result.unwrap(), str)
    assert_type(result.ok, str | None)
    return result.ok_value


def narrows(sent: Result[TaskHandle[str], TaskSendError]) -> TaskHandle[str] | None:
    if isinstance(sent, Err):
        assert_type(sent.err_value.message, str)
        return None
    assert_type(sent, "Ok[TaskHandle[str]]")
    assert_type(sent.map(lambda handle: handle.task_id).unwrap(), str)
    assert_type(sent.unwrap_or(None), "TaskHandle[str]")
    return sent.unwrap()


# Workflows.


class Doubling(WorkflowDefinition[int]):
    name = "doubling"
    definition_key = "typed.doubling"

    start = double.node()(size=4)
    out = TaskNode(double, waits_for=[start], args_from={"size": start}, node_id="out")

    class Meta:
        output = "out"


@app.workflow_builder()
def graph() -> WorkflowSpec[str]:
    doubling = SubWorkflowNode(Doubling, node_id="doubling")
    listing = sizes.node()(upto=3)
    each = TaskNode.map(double, over=listing)
    hello = greet.node(waits_for=[doubling], node_id="hello")(name="Ada")
    last = report.node(waits_for=[hello, each], join="all")(greeting=from_node(hello))
    assert_type(doubling, SubWorkflowNode[int])
    assert_type(listing, TaskNode[list[int]])
    assert_type(hello, TaskNode[str])
    spec = app.workflow("graph", [doubling, listing, each, hello, last], output=last, definition_key="typed.graph")
    assert_type(spec, WorkflowSpec[str])
    assert_type(each, MapNode[int])
    assert_type(each.key(), NodeKey[list[int]])
    assert_type(app.workflow("one", [sizes.node()(upto=3)], definition_key="typed.one"), WorkflowSpec[Any])
    return spec


async def starts() -> str:
    started = graph().start("graph-1")
    assert_type(started, "Result[WorkflowHandle[str], WorkflowStartError]")
    assert_type(await graph().start_async(), "Result[WorkflowHandle[str], WorkflowStartError]")
    assert_type(Doubling.build(app), WorkflowSpec[int])
    if is_err(started):
        assert_type(started.err_value, "WorkflowStartError")
        return started.err_value.message
    handle = started.ok_value
    assert_type(handle, WorkflowHandle[str])
    assert_type(await handle.get_async(), TaskResult[str, TaskError])
    assert_type(handle.result_for(NodeKey[int]("doubling")), TaskResult[int, TaskError])
    assert_type(handle.result_for(Doubling.out), TaskResult[int, TaskError])
    assert_type(handle.status().unwrap(), WorkflowStatus)
    assert_type(handle.tasks().unwrap(), list[WorkflowTaskInfo])
    assert_type(handle.results().unwrap(), dict[str, TaskResult[Any, TaskError]])
    assert_type(handle.retry().unwrap(), bool)
    return handle.get().unwrap()


# Hooks.


@app.on("task_failed")
def tell(event: TaskFailed) -> None:
    failures.append(event.task_name)


@app.on("task_retried")
async def tell_later(event: TaskRetried) -> None:
    assert_type(event.retry_at, datetime | None)


def started(event: WorkerStarted) -> None:
    failures.append(event.hostname)


assert_type(app.on("worker_started", started)(WorkerStarted("w", "host", 1, ("default",))), None)


# Tests of the application.


def in_memory() -> Iterator[Inline]:
    with inline(app, at_once=False) as queue:
        assert_type(queue, Inline)
        assert_type(queue.sent(greet), list[InlineTask])
        assert_type(queue.started(Doubling), list[InlineWorkflow])
        assert_type(queue.run(60).completed, int)
        yield queue


def on_a_database() -> Ran:
    return drain(app, seconds=60)


def problems() -> list[str]:
    found = app.check()
    assert_type(found, list[HorsiesError])
    return [error.message for error in found]
