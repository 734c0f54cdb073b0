"""The end of a workflow follows from its nodes; workflow_ctx and workflow_meta: content, and who gets them."""

from __future__ import annotations

import json
import tempfile
from contextvars import copy_context
from typing import Any

import pytest
from codec_models import Parcel, load_summary
from hypothesis import given, strategies as st
from task_apps import make_app

from horsies import (
    NodeKey,
    RecoveryConfig,
    SubWorkflowSummary,
    WorkflowContext,
    WorkflowContextMissingIdError,
    WorkflowMeta,
)
from horsies.domain.codec import dump_task_result, dump_value, load_task_error, load_task_result
from horsies.domain.codes import ContractCode, OutcomeCode
from horsies.domain.plan import MAP_DEFINITION, Meta, NodeRef, SourceResult, node_kwargs
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import TaskError, TaskResult
from horsies.domain.workflow_end import EndedNode, WorkflowEnd, end_of, error_summary, judge
from horsies.run.child.execute import ChildRun, Message, execute
from horsies.run.child.leases import ChildLeases
from horsies.run.contract import LeaseTerms
from horsies.run.guard import SLOT_BYTES, LeaseTable, clock
from horsies.run.progress_table import RECORD_BYTES, ProgressTable

STATUSES = ("COMPLETED", "FAILED", "SKIPPED")


def ok(value: object) -> str:
    return dump_task_result(TaskResult(ok=value))


def failed(code: str) -> str:
    return dump_task_result(TaskResult(err=TaskError(error_code=code, message="no")))


def ended(
    nodes: list[EndedNode],
    results: dict[int, str | None],
    *,
    definition_key: str | None = None,
    output_index: int | None = None,
    success_policy: str | None = None,
    stored_error: str | None = None,
) -> WorkflowEnd:
    verdict = judge(
        nodes,
        definition_key=definition_key,
        output_index=output_index,
        success_policy=success_policy,
        stored_error=stored_error,
    )
    return end_of(verdict, results)


def test_the_output_is_passed_on_to_the_letter() -> None:
    nodes = [EndedNode(0, "a", "COMPLETED", ()), EndedNode(1, "b", "COMPLETED", (0,))]
    assert ended(nodes, {0: '{"ok": 1.0e3}', 1: ok(2)}, output_index=0).result == '{"ok": 1.0e3}'


def test_without_an_output_it_is_the_last_nodes_and_null_for_those_skipped() -> None:
    nodes = [
        EndedNode(0, "a", "COMPLETED", ()),
        EndedNode(1, "b", "COMPLETED", (0,)),
        EndedNode(2, 'c"', "SKIPPED", (0,)),
    ]
    result = ended(nodes, {1: ok("é"), 2: None}).result
    assert result == '{"__task_result__":true,"ok":{"b":' + ok("é") + ',"c\\"":null},"err":null}'


def test_a_map_is_the_list_of_its_values_in_order_and_none_where_one_failed() -> None:
    nodes = [EndedNode(index, f"item:{index}", "COMPLETED", ()) for index in range(3)]
    results: dict[int, str | None] = {index: ok(index * 10) for index in range(3)}
    done = ended(nodes, results, definition_key=MAP_DEFINITION)
    assert load_task_result(str(done.result)).unwrap() == [0, 10, 20]
    nodes[1] = nodes[1]._replace(status="FAILED")
    done = ended(nodes, results | {1: failed("NO")}, definition_key=MAP_DEFINITION)
    assert (done.status, done.result, json.loads(str(done.error))["error_code"]) == (WorkflowStatus.FAILED, None, "NO")
    assert ended([], {}, definition_key=MAP_DEFINITION).result == ok([])


def test_an_error_stored_before_fails_it_although_no_node_is_failed_any_more() -> None:
    assert ended([EndedNode(0, "a", "COMPLETED", ())], {0: ok(1)}, stored_error='{"error_code":"X"}') == WorkflowEnd(
        WorkflowStatus.FAILED, '{"__task_result__":true,"ok":{"a":' + ok(1) + '},"err":null}', '{"error_code":"X"}'
    )


def test_a_policy_that_none_of_its_nodes_failed_but_was_skipped_says_so() -> None:
    nodes = [EndedNode(0, "a", "SKIPPED", ()), EndedNode(1, "b", "FAILED", ())]
    done = ended(nodes, {1: failed("X")}, success_policy='{"cases":[{"required_indices":[0]}]}')
    assert load_task_error(str(done.error)).error_code is OutcomeCode.WORKFLOW_SUCCESS_CASE_NOT_MET


@pytest.mark.parametrize(
    "policy",
    ["7", "[]", "{}", '{"cases":7}', '{"cases":[]}', '{"cases":[7]}', '{"cases":[{"required_indices":[]}]}', "no json"],
)
def test_a_damaged_policy_is_no_success(policy: str) -> None:
    done = ended([EndedNode(0, "a", "COMPLETED", ())], {0: ok(1)}, success_policy=policy)
    assert done.status is WorkflowStatus.FAILED
    assert "damaged" in str(load_task_error(str(done.error)).message)


def _of_child(status: str, cause: str) -> str:
    summary = f'{{"status":"{status}","error_summary":{cause}}}'
    return f'{{"error_code":"SUBWORKFLOW_FAILED","message":"the child","sub_workflow_summary":{summary}}}'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ('{"error_code":"X","message":"no"}', "X: no"),
        ('{"error_code":{"__builtin_task_code__":"TASK_EXPIRED"},"message":null}', "TASK_EXPIRED"),
        ("{}", None),
        (_of_child("FAILED", '"GATE: it is shut"'), "GATE: it is shut"),
        (_of_child("CANCELLED", '"it was cancelled"'), "SUBWORKFLOW_FAILED: the child"),
        (_of_child("FAILED", "null"), "SUBWORKFLOW_FAILED: the child"),
        ("no json", "no json"),
        (None, None),
    ],
)
def test_an_error_in_one_line(error: str | None, told: str | None) -> None:
    assert error_summary(error) == told


texts = st.one_of(st.none(), st.text(max_size=5), st.integers().map(ok), st.just(failed("X")), st.just("[1]"))


@given(st.data())
def test_any_workflow_has_an_end_that_can_be_read(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    nodes = [
        EndedNode(
            index,
            data.draw(st.sampled_from([f"n{index}", None])),
            data.draw(st.sampled_from(STATUSES)),
            data.draw(st.lists(st.integers(-1, 7), max_size=2)),
        )
        for index in range(count)
    ]
    results = {node.task_index: data.draw(texts) for node in nodes}
    done = ended(
        nodes,
        results,
        definition_key=data.draw(st.sampled_from([None, MAP_DEFINITION])),
        success_policy=data.draw(st.sampled_from([None, "[]", '{"cases":[{"required_indices":[0,1]}]}'])),
        stored_error=data.draw(st.sampled_from([None, '{"error_code":"X"}'])),
    )
    assert (done.status is WorkflowStatus.FAILED) <= (done.error is not None)
    if done.result is not None:
        assert json.loads(done.result).keys() >= {"ok", "err"}


ONE = dump_task_result(TaskResult(ok=1))
SUMMARY = SubWorkflowSummary(WorkflowStatus.COMPLETED, Parcel(1.5, None), 2, 2, 0, 0)


class Unnamed:
    """A node before it is part of a workflow."""

    node_id = None


def context() -> WorkflowContext:
    return WorkflowContext("w-1", 4, "sum", {"a": TaskResult(ok=1)}, {"child": SUMMARY})


def test_a_result_is_found_by_its_node() -> None:
    key: NodeKey[int] = NodeKey("a")
    assert context().result_for(key) == TaskResult(ok=1)
    assert context().has_result(key)
    assert not context().has_result(NodeKey("b"))
    assert context().summary_for(NodeKey("child")) == SUMMARY
    assert context().has_summary(NodeKey("child"))
    assert not context().has_summary(key)


def test_a_node_that_was_not_asked_for_is_a_key_error_that_names_the_others() -> None:
    with pytest.raises(KeyError, match="no result of node 'b' here; workflow_ctx_from of 'sum' gives: a"):
        context().result_for(NodeKey("b"))
    with pytest.raises(KeyError, match="no summary of node 'a'"):
        context().summary_for(NodeKey("a"))


@pytest.mark.parametrize("ask", ["result_for", "has_result", "summary_for", "has_summary"])
def test_a_node_without_an_id_is_told_so(ask: str) -> None:
    with pytest.raises(WorkflowContextMissingIdError, match="has no node_id"):
        getattr(context(), ask)(Unnamed())
    assert issubclass(WorkflowContextMissingIdError, RuntimeError)


def kwargs_of_a_node() -> str:
    child = SourceResult(NodeRef("w-1", 1), "COMPLETED", ONE, len(ONE), dump_value(SUMMARY), 1)
    ctx = {"a": SourceResult(NodeRef("w-1", 0), "COMPLETED", ONE, len(ONE)), "child": child}
    return node_kwargs('{"b":2}', results={}, ctx=ctx, meta=Meta("w-1", 4, "sum", "total"))


def run(fn: Any, kwargs: str) -> Any:
    app = make_app()
    app.storable(Parcel)
    task = app.task("sum", fn)
    with tempfile.TemporaryFile() as memory:
        memory.truncate(max(SLOT_BYTES, 2 * RECORD_BYTES))
        table, progress = LeaseTable(memory.fileno()), ProgressTable(memory.fileno())
        table.assign(0, 1, clock())
        leases = ChildLeases(table, LeaseTerms.of(RecoveryConfig()), lambda *_: None, lambda: False)
        job = Message(1, "key", "sum", None, kwargs, ("default", 1, None), None, None, 0)
        begun = ChildRun(1, 0, job, leases, progress)
        ok, text, _, _ = copy_context().run(execute, {"sum": task}, job, begun, None, None)
        begun.release()
        table.close()
        progress.close()
    tree = json.loads(text)
    return tree["ok"] if ok else tree["err"]


def test_a_worker_fills_the_parameters_that_a_task_declares() -> None:
    def total(
        b: int, workflow_ctx: WorkflowContext | None = None, workflow_meta: WorkflowMeta | None = None
    ) -> TaskResult[list[Any], TaskError]:
        assert workflow_ctx is not None
        one = workflow_ctx.result_for(NodeKey("a")).ok_value
        return TaskResult(ok=[b, one, workflow_ctx.summary_for(NodeKey("child")) == SUMMARY, str(workflow_meta)])

    told = "WorkflowMeta(workflow_id='w-1', task_index=4, task_name='sum', node_id='total')"
    assert run(total, kwargs_of_a_node()) == [2, 1, True, told]


def test_asking_by_a_node_without_an_id_fails_the_task_with_its_own_code() -> None:
    def asks(b: int, workflow_ctx: WorkflowContext | None = None) -> TaskResult[int, TaskError]:
        assert workflow_ctx is not None
        return workflow_ctx.result_for(Unnamed())  # type: ignore[arg-type]

    assert run(asks, kwargs_of_a_node())["error_code"] == {
        "__builtin_task_code__": ContractCode.WORKFLOW_CTX_MISSING_ID.value
    }


def test_a_summary_survives_storage_with_its_output() -> None:
    assert load_summary(dump_value(SUMMARY)) == SUMMARY


def test_a_summary_whose_output_class_is_gone_keeps_its_numbers() -> None:
    text = dump_value(SUMMARY).replace("Parcel", "Gone")
    summary = load_summary(text)
    assert (summary.status, summary.total_tasks, summary.completed_tasks) == (WorkflowStatus.COMPLETED, 2, 2)
    assert summary.output["qualname"] == "Gone"


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"status":"FAILED"}'])
def test_a_damaged_summary_passes_for_a_failure(text: str) -> None:
    assert load_summary(text).status is WorkflowStatus.FAILED
