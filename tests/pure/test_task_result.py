"""TaskResult, TaskError and SubWorkflowError: their fields and refusals."""

from __future__ import annotations

import copy
import pickle
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any

import pytest
from pydantic import ValidationError

from horsies.core.models.workflow import context
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, BuiltInTaskCode
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import SubWorkflowSummary, TaskError, TaskResult
from horsies.store.reading import TaskAttemptInfo, TaskInfo

SUMMARY = {
    "status": "FAILED",
    "output": None,
    "total_tasks": 2,
    "completed_tasks": 1,
    "failed_tasks": 1,
    "skipped_tasks": 0,
    "error_summary": "the second node failed",
}


def test_a_success_holds_its_value() -> None:
    result: TaskResult[int, TaskError] = TaskResult(ok=42)
    assert (result.is_ok(), result.is_err()) == (True, False)
    assert (result.ok, result.err) == (42, None)
    assert result.ok_value == result.unwrap() == 42
    for wrong in (lambda: result.err_value, result.unwrap_err):
        with pytest.raises(ValueError, match="holds a value, not an error: 42"):
            wrong()


def test_a_failure_holds_its_error() -> None:
    error = TaskError(error_code="CARD_DECLINED", message="no")
    result: TaskResult[int, TaskError] = TaskResult(err=error)
    assert (result.is_ok(), result.is_err()) == (False, True)
    assert (result.ok, result.err) == (None, error)
    assert result.err_value is error
    assert result.unwrap_err() is error
    for wrong in (lambda: result.ok_value, result.unwrap):
        with pytest.raises(ValueError, match=r"holds an error, not a value: .*CARD_DECLINED"):
            wrong()


@pytest.mark.parametrize("falsy", [0, "", [], {}, False])
def test_falsy_values_stay_on_their_side(falsy: object) -> None:
    assert TaskResult(ok=falsy).is_ok()
    assert TaskResult(err=falsy).is_err()


@pytest.mark.parametrize("sides", [{}, {"ok": 1, "err": "late"}, {"ok": None, "err": "late"}, {"err": None}])
def test_exactly_one_side_must_be_given(sides: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        TaskResult(**sides)


def test_results_with_equal_sides_are_equal() -> None:
    assert TaskResult(ok=1) == TaskResult(ok=1)
    assert TaskResult(ok=1) != TaskResult(ok=2)
    assert TaskResult(ok="late") != TaskResult(err="late")
    assert TaskResult(ok=1) != 1
    assert TaskResult(err=TaskError(error_code="A")) == TaskResult(err=TaskError(error_code="A"))
    assert hash(TaskResult(ok=1)) == hash(TaskResult(ok=1))


def test_the_repr_shows_what_is_there_and_nothing_else() -> None:
    assert repr(TaskResult(ok=[1])) == "TaskResult(ok=[1])"
    error = TaskError(error_code="CARD_DECLINED", message="no")
    assert repr(TaskResult(err=error)) == "TaskResult(err=TaskError(error_code='CARD_DECLINED', message='no'))"


@pytest.mark.parametrize("name", ["ok", "err", "_ok", "other"])
def test_a_task_result_cannot_be_changed(name: str) -> None:
    result = TaskResult(ok=1)
    with pytest.raises(AttributeError):
        setattr(result, name, 2)
    with pytest.raises(AttributeError):
        delattr(result, name)
    assert result == TaskResult(ok=1)


@pytest.mark.parametrize("result", [TaskResult(ok=[1]), TaskResult(ok=None), TaskResult(err="late")])
def test_a_task_result_survives_copy_and_pickle(result: TaskResult[Any, Any]) -> None:
    assert copy.deepcopy(result) == result
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("code", BUILTIN_CODE_REGISTRY.values())
def test_a_built_in_code_is_given_as_member_or_in_its_stored_form(code: BuiltInTaskCode) -> None:
    assert TaskError(error_code=code).error_code is code
    assert TaskError(error_code={"__builtin_task_code__": code.value}).error_code is code  # type: ignore[arg-type]


@pytest.mark.parametrize("code", BUILTIN_CODE_REGISTRY)
def test_a_string_equal_to_a_built_in_code_is_refused(code: str) -> None:
    with pytest.raises(ValidationError, match=f"pass .*{code}"):
        TaskError(error_code=code)


def test_a_foreign_string_enum_is_refused() -> None:
    class Mine(StrEnum):
        LATE = "LATE"

    with pytest.raises(ValueError, match="for example 'LATE'"):
        TaskError(error_code=Mine.LATE)


@pytest.mark.parametrize(
    "code", [{"__builtin_task_code__": "NOT_OURS"}, {"__builtin_task_code__": 1}, {"other": "WORKER_CRASHED"}, 7, []]
)
def test_other_codes_are_refused(code: Any) -> None:
    with pytest.raises(ValidationError):
        TaskError(error_code=code)


@pytest.mark.parametrize("exception", [ValueError("x"), KeyboardInterrupt(), {"type": "ValueError", "message": "x"}])
def test_an_error_holds_an_exception_or_its_stored_form(exception: Any) -> None:
    assert TaskError(exception=exception).exception == exception


def test_a_summary_reads_its_stored_forms() -> None:
    tagged = {
        "__dataclass__": True,
        "module": "horsies.core.models.workflow.context",
        "qualname": "SubWorkflowSummary",
        "data": SUMMARY,
    }
    summary = SubWorkflowSummary.from_json(SUMMARY)
    assert summary == SubWorkflowSummary.from_json(tagged)
    assert summary == SubWorkflowSummary(WorkflowStatus.FAILED, None, 2, 1, 1, 0, "the second node failed")
    assert context.SubWorkflowSummary is SubWorkflowSummary


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        ({}, WorkflowStatus.FAILED),
        ({"status": "COMPLETED"}, WorkflowStatus.COMPLETED),
        ({"status": "A_LATER_STATUS"}, WorkflowStatus.FAILED),
        ({"status": ["COMPLETED"], "total_tasks": "many", "unknown": 1}, WorkflowStatus.FAILED),
    ],
)
def test_a_damaged_summary_is_read_and_never_passes_for_a_success(
    stored: dict[str, Any], status: WorkflowStatus
) -> None:
    summary = SubWorkflowSummary.from_json(stored)
    assert (summary.status, summary.total_tasks, summary.error_summary) == (status, 0, None)


TASK = """task_id task_name status queue_name priority retry_count max_retries next_retry_at sent_at enqueued_at
claimed_at started_at completed_at failed_at worker_hostname worker_pid worker_process_name"""
ATTEMPT = "task_id attempt outcome will_retry started_at finished_at"
TASK_OPTIONAL = "error_code result failed_reason attempts progress"
ATTEMPT_OPTIONAL = "error_code error_message failed_reason worker_id worker_hostname worker_pid worker_process_name"


@pytest.mark.parametrize(
    ("kind", "required", "optional"), [(TaskInfo, TASK, TASK_OPTIONAL), (TaskAttemptInfo, ATTEMPT, ATTEMPT_OPTIONAL)]
)
def test_the_fields_stand_in_the_documented_order(
    kind: type[TaskInfo] | type[TaskAttemptInfo], required: str, optional: str
) -> None:
    assert [field.name for field in fields(kind)] == [*required.split(), *optional.split()]
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    assert defaults == dict.fromkeys(optional.split())
