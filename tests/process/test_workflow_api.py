"""Workflows as users write them, run by a real worker with real children."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from database_server import DatabaseServer
from test_worker import PATIENCE_S, Worker

from horsies import (
    NodeKey,
    OutcomeCode,
    SubWorkflowError,
    SubWorkflowNode,
    TaskNode,
    TaskResult,
    WorkflowHandle,
    WorkflowSpec,
    WorkflowStatus,
    from_node,
)

WAIT_MS = int(PATIENCE_S * 1000)
Flow = Callable[..., WorkflowSpec[Any]]


@pytest.fixture(scope="module")
def shop(server: DatabaseServer) -> Iterator[Any]:
    """The module with the application, and one worker for all tests, which use separate rows."""
    with server.database() as url, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HORSIES_DATABASE_URL", url)
        module = import_module("workflow_api_app")
        worker = Worker("--processes", "2", app="workflow_api_app:app", HORSIES_DATABASE_URL=url)
        worker.wait_for("ready")
        yield module
        assert worker.stop() == 0
        worker.kill()
        module.app.get_broker().close()
        del sys.modules["workflow_api_app"]


@pytest.fixture
def flow(shop: Any) -> Flow:
    """A workflow of these nodes."""

    def make(*nodes: Any, **options: Any) -> WorkflowSpec[Any]:
        spec: WorkflowSpec[Any] = shop.app.workflow("flow", list(nodes), definition_key="test.flow", **options)
        return spec

    return make


def ended(spec: WorkflowSpec[Any]) -> tuple[WorkflowHandle[Any], TaskResult[Any, Any]]:
    handle = spec.start().unwrap()
    return handle, handle.get(WAIT_MS)


def states(handle: WorkflowHandle[Any]) -> list[str]:
    return [info.status.value for info in handle.tasks().unwrap()]


def test_a_chain_hands_its_results_on(shop: Any, flow: Flow) -> None:
    first = shop.number.node()(value=5)
    second = shop.twice.node()(value=from_node(first))
    third = shop.total.node(node_id="third")(left=from_node(first), right=from_node(second), extra=7)
    handle, result = ended(flow(first, second, third, output=third))
    assert result == TaskResult(ok=22)
    assert handle.status().unwrap() is WorkflowStatus.COMPLETED
    assert handle.results().unwrap() == {
        "flow:0": TaskResult(ok=5),
        "flow:1": TaskResult(ok=10),
        "third": TaskResult(ok=22),
    }
    assert handle.result_for(third) == handle.result_for(NodeKey("third")) == TaskResult(ok=22)


def test_without_an_output_the_result_is_that_of_the_last_nodes(shop: Any, flow: Flow) -> None:
    first = TaskNode(fn=shop.number, kwargs={"value": 1}, node_id="first")
    left = TaskNode(fn=shop.twice, waits_for=[first], args_from={"value": first}, node_id="left")
    right = TaskNode(fn=shop.number, kwargs={"value": 3}, waits_for=[first], node_id="right")
    handle, result = ended(flow(first, left, right))
    assert result.ok_value == {"left": TaskResult(ok=2), "right": TaskResult(ok=3)}
    nodes = handle.tasks().unwrap()
    assert [info.name for info in nodes] == ["number", "twice", "number"]
    assert all(info.started_at and info.completed_at and info.started_at <= info.completed_at for info in nodes)


def test_a_context_gives_the_results_that_were_asked_for(shop: Any, flow: Flow) -> None:
    good = TaskNode(fn=shop.number, kwargs={"value": 1}, node_id="good")
    bad = TaskNode(fn=shop.refuse, node_id="bad")
    child = SubWorkflowNode(workflow_def=shop.Doubling, node_id="child")
    told = TaskNode(
        fn=shop.describe,
        waits_for=[good, bad, child],
        workflow_ctx_from=[good, bad, child],
        allow_failed_deps=True,
        node_id="told",
    )
    handle, result = ended(flow(good, bad, child, told, output=told))
    assert result.err_value.error_code == "CARD_DECLINED"
    assert handle.result_for(told).ok_value == {
        "index": 3,
        "same": True,
        "codes": {"good": True, "bad": False, "child": True},
        "child": ["COMPLETED", 42, 2],
    }


def test_a_failure_ends_what_follows_and_gives_its_error(shop: Any, flow: Flow) -> None:
    bad = TaskNode(fn=shop.refuse, node_id="bad")
    after = TaskNode(fn=shop.twice, waits_for=[bad], args_from={"value": bad}, node_id="after")
    last = TaskNode(fn=shop.code_of, waits_for=[after], args_from={"value": after}, allow_failed_deps=True)
    handle, result = ended(flow(bad, after, last))
    assert result.err_value.error_code == "CARD_DECLINED"
    assert result.err_value.data == {"limit": 5}
    assert handle.status().unwrap() is WorkflowStatus.FAILED
    assert states(handle) == ["FAILED", "SKIPPED", "COMPLETED"]
    assert handle.result_for(after).err_value.error_code is OutcomeCode.UPSTREAM_SKIPPED
    assert handle.result_for(last) == TaskResult(ok=f"TaskError {OutcomeCode.UPSTREAM_SKIPPED}")


def test_a_child_workflow_gives_its_output(shop: Any, flow: Flow) -> None:
    first = TaskNode(fn=shop.number, kwargs={"value": 3}, node_id="first")
    child = SubWorkflowNode(
        workflow_def=shop.Counting, kwargs={"steps": 3}, waits_for=[first], args_from={"start": first}, node_id="child"
    )
    last = TaskNode(fn=shop.twice, waits_for=[child], args_from={"value": child}, node_id="last")
    handle, result = ended(flow(first, child, last, output=last))
    assert result == TaskResult(ok=48)
    info = handle.tasks().unwrap()[1]
    assert info.sub_workflow_summary is not None
    assert (info.sub_workflow_summary.status, info.sub_workflow_summary.output) == (WorkflowStatus.COMPLETED, 24)
    assert info.sub_workflow_id is not None
    inner: WorkflowHandle[int] = WorkflowHandle(info.sub_workflow_id, shop.app.get_broker())
    assert inner.get() == TaskResult(ok=24)
    assert [one.node_id for one in inner.tasks().unwrap()] == ["start", "step0", "step1", "step2"]


def test_the_failure_of_a_child_is_an_error_of_its_own_class_wherever_it_is_read(shop: Any, flow: Flow) -> None:
    child = SubWorkflowNode(workflow_def=shop.Failing, node_id="child")
    judged = TaskNode(
        fn=shop.judge, waits_for=[child], args_from={"child": child}, allow_failed_deps=True, node_id="judged"
    )
    handle, result = ended(flow(child, judged))
    sub_workflow_id = handle.tasks().unwrap()[0].sub_workflow_id
    assert handle.result_for(judged) == TaskResult(ok=f"{sub_workflow_id} FAILED 1 of 2")
    for error in (result.err_value, handle.result_for(child).err_value):
        match error:
            case SubWorkflowError(sub_workflow_id=found, sub_workflow_summary=summary):
                assert found == sub_workflow_id
                assert (summary.completed_tasks, summary.failed_tasks, summary.skipped_tasks) == (1, 1, 0)
                assert error.error_code is OutcomeCode.SUBWORKFLOW_FAILED
            case other:
                pytest.fail(f"{other!r} is no SubWorkflowError")


def test_a_large_value_with_a_class_arrives_whole_and_is_not_copied(shop: Any, flow: Flow) -> None:
    packed = TaskNode(fn=shop.pack, kwargs={"weight": 0.5}, node_id="packed")
    weighed = TaskNode(fn=shop.weigh, waits_for=[packed], args_from={"parcel": packed}, node_id="weighed")
    handle, result = ended(flow(packed, weighed, output=weighed))
    assert result == TaskResult(ok=200_000.5)
    assert handle.result_for(packed).ok_value.weight == 0.5


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_map_runs_once_per_item(shop: Any, flow: Flow, count: int) -> None:
    source = TaskNode(fn=shop.numbers, kwargs={"count": count}, node_id="source")
    mapped = TaskNode.map(shop.square, over=source, plus=1)
    total = TaskNode(fn=shop.summed, waits_for=[mapped], args_from={"values": mapped}, node_id="total")
    handle, result = ended(flow(source, mapped, total, output=total))
    assert result == TaskResult(ok=sum(value * value + 1 for value in range(count)))
    assert handle.result_for(mapped) == TaskResult(ok=[value * value + 1 for value in range(count)])


def test_a_node_that_is_retried_knows_its_place_each_time(shop: Any, flow: Flow, tmp_path: Path) -> None:
    first = TaskNode(fn=shop.number, kwargs={"value": 1}, node_id="first")
    flaky = TaskNode(fn=shop.flaky, kwargs={"count_file": str(tmp_path / "runs")}, waits_for=[first], node_id="flaky")
    handle, result = ended(flow(first, flaky, output=flaky))
    assert result == TaskResult(ok=[2, 1])
    assert handle.status().unwrap() is WorkflowStatus.COMPLETED
