"""workflow_ctx and workflow_meta: their content, which tasks get them, and refused requests."""

from __future__ import annotations

import json
import tempfile
from contextvars import copy_context
from typing import Any

import pytest
from codec_models import Parcel, load_summary
from task_apps import make_app

from horsies import (
    NodeKey,
    RecoveryConfig,
    SubWorkflowSummary,
    TaskError,
    TaskResult,
    WorkflowContext,
    WorkflowContextMissingIdError,
    WorkflowMeta,
    WorkflowStatus,
)
from horsies.domain.codec import dump_task_result, dump_value
from horsies.domain.codes import ContractCode
from horsies.domain.plan import Meta, NodeRef, SourceResult, node_kwargs
from horsies.run.child.execute import ChildRun, Message, execute
from horsies.run.child.leases import ChildLeases
from horsies.run.contract import LeaseTerms
from horsies.run.guard import SLOT_BYTES, LeaseTable, clock
from horsies.run.progress_table import RECORD_BYTES, ProgressTable

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


def test_a_task_without_those_parameters_is_not_given_them() -> None:
    def plain(b: int) -> TaskResult[int, TaskError]:
        return TaskResult(ok=b)

    assert run(plain, kwargs_of_a_node()) == 2


def test_outside_of_a_workflow_the_parameters_keep_their_defaults() -> None:
    def either(b: int, workflow_meta: WorkflowMeta | None = None) -> TaskResult[bool, TaskError]:
        return TaskResult(ok=workflow_meta is None)

    assert run(either, '{"b":2}') is True


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
