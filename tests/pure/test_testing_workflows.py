"""Workflows in inline mode: the whole graph runs here and now, and handles do what they do on a database."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

import pytest
from task_apps import make_app

from horsies import (
    Err,
    HandleErrorCode,
    NodeKey,
    Ok,
    OperationalErrorCode,
    RetrievalCode,
    RetryPolicy,
    SubWorkflowNode,
    TaskError,
    TaskNode,
    TaskResult,
    WorkflowContext,
    WorkflowDefinition,
    WorkflowHandle,
    WorkflowSpec,
)
from horsies.domain.errors import HorsiesError
from horsies.store.statements import statement
from horsies.testing import Ran, inline
from horsies.testing.memory.rows import ANSWERS
from horsies.workflow.handle import recover_stuck_workflows

app = make_app()
heard: list[Any] = []


@app.task("number")
def number(value: int) -> TaskResult[int, TaskError]:
    heard.append(value)
    return TaskResult(ok=value)


@app.task("add")
def add(a: TaskResult[int, TaskError], b: int = 1) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a.ok_value + b) if a.is_ok() else TaskResult(ok=-1)


@app.task("total")
async def total(workflow_ctx: WorkflowContext) -> TaskResult[int, TaskError]:
    heard.append(asyncio.get_running_loop())
    return TaskResult(ok=sum(result.ok_value for result in workflow_ctx.results_by_id.values()))


@app.task("flaky", retry_policy=RetryPolicy.fixed([60], auto_retry_for=["AGAIN"], jitter=False))
def flaky() -> TaskResult[int, TaskError]:
    heard.append("flaky")
    return TaskResult(ok=2) if heard.count("flaky") > 1 else TaskResult(err=TaskError(error_code="AGAIN"))


@app.task("broken")
def broken() -> TaskResult[int, TaskError]:
    raise LookupError("no such order")


@app.task("letters")
def letters(size: int) -> TaskResult[str, TaskError]:
    return TaskResult(ok="x" * size)


@app.task("length")
def length(of: TaskResult[str, TaskError]) -> TaskResult[int, TaskError]:
    return TaskResult(ok=len(of.ok_value))


@app.task("stops_its_own")
def stops_its_own() -> TaskResult[None, TaskError]:
    heard[0].cancel()
    return TaskResult(ok=None)


@app.task("waits_for_the_test")
def waits_for_the_test() -> TaskResult[bool, TaskError]:
    begun, go = heard
    begun.set()
    return TaskResult(ok=go.wait(30))


@app.task("waits_for")
def waits_for(other: str) -> TaskResult[str, TaskError]:
    both_run, handles = heard
    both_run.wait(30)
    result = handles[other].get()
    return TaskResult(ok="" if result.is_ok() else result.err_value.error_code.value)


@app.task("suspends")
async def suspends() -> TaskResult[bool, TaskError]:
    begun, go = heard
    begun.set()
    return TaskResult(ok=await asyncio.wait_for(go.wait(), 30))


@app.task("starts_another")
def starts_another() -> TaskResult[int, TaskError]:
    handle = flow(TaskNode(number, kwargs={"value": 5}), output=0).start().unwrap()
    heard.append(handle.status().unwrap())
    return TaskResult(ok=handle.get().unwrap())


@app.task("invalid")
def invalid() -> TaskResult[int, TaskError]:
    raise ValueError("no such order")


class Doubling(WorkflowDefinition[int]):
    name = "doubling"
    definition_key = "test.inline.doubling"

    @classmethod
    def build_with(cls, app: Any, *, start: TaskResult[int, TaskError]) -> WorkflowSpec[int]:
        heard.append(threading.get_ident())
        if start.ok_value < 0:
            raise ValueError("nothing to double")
        first = TaskNode(number, kwargs={"value": start.ok_value})
        last = TaskNode(add, waits_for=[first], args_from={"a": first}, kwargs={"b": start.ok_value})
        return app.workflow(cls.name, [first, last], output=last, definition_key=cls.definition_key)


def flow(*nodes: Any, output: Any = None, **options: Any) -> WorkflowSpec[Any]:
    last = nodes[output] if isinstance(output, int) else output
    return app.workflow("flow", list(nodes), output=last, definition_key="test.inline.flow", **options)


@pytest.fixture(autouse=True)
def _nothing_heard_yet() -> None:
    heard.clear()


def test_a_start_runs_the_whole_graph_before_it_returns() -> None:
    one, two = (
        TaskNode(number, kwargs={"value": 1}, node_id="one"),
        TaskNode(number, kwargs={"value": 2}, node_id="two"),
    )
    both = TaskNode(total, waits_for=[one, two], workflow_ctx_from=[one, two], node_id="both")
    more = TaskNode(add, waits_for=[both], args_from={"a": both}, kwargs={"b": 10}, node_id="more")
    with inline(app) as queue:
        handle = flow(one, two, both, more, output=more).start().unwrap()
        (started,) = queue.started()
        assert started.status == "COMPLETED"
        assert started.statuses == dict.fromkeys(["one", "two", "both", "more"], "COMPLETED")
        assert (started.result, handle.get()) == (TaskResult(ok=13),) * 2
        assert handle.result_for(NodeKey[int]("both")).unwrap() == 3
        assert list(handle.results().unwrap()) == ["one", "two", "both", "more"]
        assert [(task.task_name, task.kwargs) for task in queue.sent(number)] == [
            ("number", {"value": 1}),
            ("number", {"value": 2}),
        ]


def test_a_child_that_cannot_be_built_fails_its_node_or_raises_for_the_test() -> None:
    first = TaskNode(number, kwargs={"value": -1})
    child = SubWorkflowNode(Doubling, waits_for=[first], args_from={"start": first})
    with inline(app):
        error = flow(first, child, output=child).start().unwrap().get().err_value
        assert error.error_code is OperationalErrorCode.WORKFLOW_ENQUEUE_FAILED
    with inline(app, raises=True), pytest.raises(ValueError, match="nothing to double"):
        flow(first, child, output=child).start()
    assert heard.count(threading.get_ident()) == 2, "user code runs in the thread of the test"


def test_a_task_that_cancels_its_own_workflow_loses_its_outcome() -> None:
    with inline(app, at_once=False) as queue:
        heard.append(flow(TaskNode(stops_its_own, node_id="one")).start().unwrap())
        assert queue.run() == Ran()
        assert (queue.started()[0].status, queue.started()[0].statuses) == ("CANCELLED", {"one": "FAILED"})
        assert queue.sent()[0].status == "CANCELLED"


def test_retries_take_no_time_when_they_are_waited_for() -> None:
    first = TaskNode(flaky)
    with inline(app):
        handle = flow(first, TaskNode(add, waits_for=[first], args_from={"a": first}), output=1).start().unwrap()
        assert [handle.status(), handle.tasks().unwrap()[0].status] == [Ok("RUNNING"), "RUNNING"]
        assert handle.get(1_000).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
        assert handle.get() == TaskResult(ok=3)


def test_a_result_that_is_too_large_to_be_copied_reaches_its_node() -> None:
    first = TaskNode(letters, kwargs={"size": 100_000})
    with inline(app):
        handle = flow(first, TaskNode(length, waits_for=[first], args_from={"of": first}), output=1).start().unwrap()
        assert handle.get() == TaskResult(ok=100_000)


def test_an_id_of_your_own_starts_once() -> None:
    with inline(app) as queue:
        spec = flow(TaskNode(number, kwargs={"value": 1}))
        assert spec.start("order-7").unwrap().workflow_id == spec.start("order-7").unwrap().workflow_id == "order-7"
        other = flow(TaskNode(number, kwargs={"value": 2})).start("order-7")
        assert "other arguments" in other.unwrap_err().message
        assert (len(queue.started()), heard) == (1, [1])


def test_a_start_in_a_transaction_of_the_caller_is_not_waited_for() -> None:
    with inline(app) as queue:
        flow(TaskNode(number, kwargs={"value": 1})).start(connection=object()).unwrap()
        assert queue.started()[0].status == "COMPLETED"


def test_a_task_may_start_a_workflow_and_wait_for_it() -> None:
    with inline(app):
        assert starts_another.send().unwrap().get().unwrap() == 5
    assert heard == ["RUNNING", 5], "as in a worker, it begins beside the task, not in the middle of its start"


def test_an_exception_of_a_node_is_raised_by_the_start() -> None:
    with inline(app, raises=True), pytest.raises(LookupError, match="no such order"):
        flow(TaskNode(broken)).start()
    with inline(app, raises=True), pytest.raises(ValueError, match="no such order"):
        flow(TaskNode(invalid)).start()


def test_an_exception_of_a_node_is_raised_by_the_wait_that_runs_it() -> None:
    """A ValueError was taken for an error of the database, and became the result."""
    with inline(app, at_once=False, raises=True):
        handle = flow(TaskNode(invalid)).start().unwrap()
        with pytest.raises(ValueError, match="no such order"):
            handle.get()


def test_what_waits_for_ever_is_told() -> None:
    with inline(app) as queue:
        node = TaskNode(number, kwargs={"value": 1})
        spec = flow(node)
        del app.tasks._tasks["number"]
        try:
            error = spec.start().unwrap().get().err_value
        finally:
            app.tasks.register(number)
        assert (error.error_code, error.message) == (
            RetrievalCode.WAIT_TIMEOUT,
            "the workflow was still RUNNING and nothing here can end it",
        )
        assert queue.run() == Ran(completed=1)


def test_a_workflow_that_is_not_there() -> None:
    with inline(app):
        handle: WorkflowHandle[int] = WorkflowHandle("gone", app.get_broker())
        assert handle.get().err_value.error_code is RetrievalCode.WORKFLOW_NOT_FOUND
        for answer in (handle.status(), handle.cancel(), handle.retry(), handle.tasks()):
            assert isinstance(answer, Err)
            assert answer.err_value.code is HandleErrorCode.WORKFLOW_NOT_FOUND


async def test_what_only_a_database_has_says_so() -> None:
    with inline(app), pytest.raises(HorsiesError, match="there is no database"):
        await recover_stuck_workflows(app.get_broker())


async def test_in_a_running_loop_async_nodes_run_in_it_and_definitions_outside_of_it() -> None:
    one = TaskNode(number, kwargs={"value": 4}, node_id="one")
    both = TaskNode(total, waits_for=[one], workflow_ctx_from=[one])
    child = SubWorkflowNode(Doubling, waits_for=[both], args_from={"start": both})
    with inline(app) as queue:
        handle = (await flow(one, both, child, output=child).start_async()).unwrap()
        assert await handle.get_async() == TaskResult(ok=8)
        assert asyncio.get_running_loop() in heard
        assert threading.get_ident() not in heard
        assert await handle.pause_async() == Ok(False)
        assert (await handle.status_async()).unwrap() is queue.started()[0].status


def test_workflows_may_be_started_by_many_threads() -> None:
    def start(value: int) -> int:
        nodes = [TaskNode(number, kwargs={"value": value}, node_id="one")]
        nodes.append(TaskNode(add, waits_for=[nodes[0]], args_from={"a": nodes[0]}))
        return int(flow(*nodes, output=1).start().unwrap().get().unwrap())

    with inline(app) as queue, ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(start, range(40))) == list(range(1, 41))
        assert [each.status.value for each in queue.started()] == ["COMPLETED"] * 40


async def test_what_another_thread_runs_is_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()
    heard[:] = [begun, go]
    with inline(app, at_once=False) as queue:
        handle = flow(TaskNode(waits_for_the_test), output=0).start().unwrap()
        runs = asyncio.create_task(asyncio.to_thread(queue.run))
        assert await asyncio.to_thread(begun.wait, 30)
        assert (await handle.get_async(1)).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
        waits = asyncio.gather(handle.get_async(), asyncio.to_thread(handle.get))
        await asyncio.sleep(0)
        go.set()
        assert await waits == [TaskResult(ok=True)] * 2
        assert await runs == Ran(completed=1)


def test_tasks_that_wait_for_each_other_get_an_error() -> None:
    heard[:] = [threading.Barrier(2), {}]
    with inline(app, at_once=False) as queue, ThreadPoolExecutor(2) as threads:
        heard[1] |= {name: waits_for.send(other).unwrap() for name, other in (("a", "b"), ("b", "a"))}
        runs = [threads.submit(queue.run) for _ in heard[1]]
        assert sum((run.result(30) for run in runs), Ran()) == Ran(completed=2)
        assert sorted(handle.get().unwrap() for handle in heard[1].values()) == ["", "WAIT_TIMEOUT"]


async def test_a_blocking_wait_does_not_stop_the_loop_in_which_the_task_runs() -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    heard[:] = [begun, go]
    with inline(app, at_once=False) as queue:
        handle = suspends.send().unwrap()
        runs = asyncio.create_task(queue.run_async())
        await begun.wait()
        assert handle.get().err_value.error_code is RetrievalCode.WAIT_TIMEOUT
        waits = asyncio.create_task(handle.get_async())
        await asyncio.sleep(0)
        go.set()
        assert (await waits, await runs) == (TaskResult(ok=True), Ran(completed=1))


async def test_a_workflow_may_be_started_in_small_steps_in_a_loop() -> None:
    with inline(app, at_once=False) as queue:
        handle = (await flow(TaskNode(flaky)).start_async(connection=object())).unwrap()
        assert await queue.run_async() == Ran(retried=1)
        assert (await handle.get_async(0)).err_value.error_code is RetrievalCode.WAIT_TIMEOUT
        assert (await handle.get_async()).is_ok()


ANSWERED = (
    *(f"horsies.lifecycle.{name}" for name in ("advancing", "completing", "controlling", "create_workflow")),
    *(f"horsies.lifecycle.{name}" for name in ("node_tasks", "reopening")),
    *("horsies.lifecycle.workflow_rows", "horsies.store.reading"),
)
NEVER_ASKED = {
    *("advance_patience", "advance_lock", "advance_holders"),  # nobody else can hold a lock here
    *("nodes_of_tasks", "note_spans"),  # runs are not traced
    *("advance_lock_tasks", "reopen_tasks"),  # for operators on single tasks
    *("copied_options", "copy_workflow_row", "copy_nodes"),  # for operators on workflows
    *("read_outcomes", "stale_tasks", "worker_stats", "expired_tasks"),  # for tasks
}


def test_every_statement_that_moves_a_workflow_is_answered() -> None:
    """One that is added to these files must be answered here, too, or named as never asked."""
    found = {}
    for module in ANSWERED:
        package, _, name = module.rpartition(".")
        text = files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")
        for each in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE):
            found[each] = statement(module, each)
    assert {name for name, text in found.items() if text not in ANSWERS} == NEVER_ASKED
    assert set(ANSWERS) <= set(found.values())
