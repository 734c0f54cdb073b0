"""Ok and Err, and do-notation; TaskResult, TaskError and SubWorkflowError."""

from __future__ import annotations

import copy
import pickle
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from horsies.core.models.workflow import context
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, BuiltInTaskCode
from horsies.domain.result import (
    Err,
    Ok,
    OkErr,
    Result,
    UnwrapError,
    as_async_result,
    as_result,
    do,
    do_async,
    is_err,
    is_ok,
)
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import SubWorkflowSummary, TaskError, TaskResult
from horsies.store.reading import TaskAttemptInfo, TaskInfo

results = st.one_of(st.integers().map(Ok), st.text(max_size=5).map(Err))


def increase(value: int) -> int:
    return value + 1


def double(value: int) -> int:
    return value * 2


def halve(value: int) -> Result[int, str]:
    return Ok(value // 2) if value % 2 == 0 else Err(f"{value} is odd")


async def increase_later(value: int) -> int:
    return value + 1


async def halve_later(value: int) -> Result[int, str]:
    return halve(value)


@given(results)
async def test_the_async_forms_agree_with_the_plain_ones(result: Result[int, str]) -> None:
    assert await result.map_async(increase_later) == result.map(increase)
    assert await result.and_then_async(halve_later) == result.and_then(halve)


@given(results)
def test_exactly_one_side_is_there(result: Result[int, str]) -> None:
    assert result.is_ok() is not result.is_err()
    assert is_ok(result) is result.is_ok()
    assert is_err(result) is result.is_err()
    assert isinstance(result, OkErr)


@given(results)
def test_equal_results_have_equal_hashes_and_survive_copy_and_pickle(result: Result[int, str]) -> None:
    for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert twin == result
        assert hash(twin) == hash(result)


def test_the_methods_of_ok() -> None:
    seen: list[Any] = []
    result = Ok(4)
    assert (result.ok(), result.err()) == (4, None)
    assert result.expect("never read") == 4
    assert result.unwrap() == 4
    assert result.unwrap_or(0) == 4
    assert result.unwrap_or_else(len) == 4
    assert result.unwrap_or_raise(ValueError) == 4
    assert (result.map(double), result.and_then(halve)) == (Ok(8), Ok(2))
    assert result.map_or(0, double) == 8
    assert result.map_or_else(lambda: 0, double) == 8
    assert result.map_err(len) is result
    assert result.or_else(Err) is result
    assert result.inspect(seen.append) is result
    assert result.inspect_err(seen.append) is result
    assert seen == [4]


def test_the_methods_of_err() -> None:
    seen: list[Any] = []
    result = Err("late")
    assert (result.ok(), result.err()) == (None, "late")
    assert result.expect_err("never read") == "late"
    assert result.unwrap_err() == "late"
    assert result.unwrap_or(0) == 0
    assert result.unwrap_or_else(len) == 4
    assert result.map_or(0, double) == 0
    assert result.map_or_else(lambda: 7, double) == 7
    assert result.map(double) is result
    assert result.map_err(len) == Err(4)
    assert result.and_then(halve) is result
    assert result.or_else(lambda text: Ok(len(text))) == Ok(4)
    assert result.inspect(seen.append) is result
    assert result.inspect_err(seen.append) is result
    assert seen == ["late"]


def test_unwrapping_the_wrong_side_names_the_result() -> None:
    with pytest.raises(UnwrapError, match="late") as caught:
        Err("late").unwrap()
    assert caught.value.result == Err("late")
    with pytest.raises(UnwrapError, match="1") as caught:
        Ok(1).unwrap_err()
    assert caught.value.result == Ok(1)
    with pytest.raises(UnwrapError, match="no luck: 'late'"):
        Err("late").expect("no luck")
    with pytest.raises(UnwrapError, match="no fault: 1"):
        Ok(1).expect_err("no fault")


def test_an_exception_as_value_is_the_cause_of_the_unwrap_error() -> None:
    reason = ConnectionError("gone")
    for unwrap in (Err(reason).unwrap, Ok(reason).unwrap_err, lambda: Err(reason).expect("no luck")):
        with pytest.raises(UnwrapError) as caught:
            unwrap()
        assert caught.value.__cause__ is reason
    with pytest.raises(UnwrapError) as caught:
        Err("late").unwrap()
    assert caught.value.__cause__ is None


def test_unwrap_or_raise_raises_the_given_class_with_the_reason() -> None:
    with pytest.raises(LookupError) as caught:
        Err("late").unwrap_or_raise(LookupError)
    assert caught.value.args == ("late",)


@pytest.mark.parametrize("result", [Ok(1), Err(1)])
def test_a_result_cannot_be_changed(result: Any) -> None:
    before = repr(result)
    for name in ("ok_value", "err_value", "other"):
        with pytest.raises(AttributeError):
            setattr(result, name, 2)
        with pytest.raises(AttributeError):
            delattr(result, name)
    assert repr(result) == before
    assert not hasattr(result, "__dict__")


def test_as_result_catches_the_named_exceptions_only() -> None:
    @as_result(ValueError, KeyError)
    def parse(text: str) -> int:
        """Read a number."""
        return {"zero": 0}[text] if text.isalpha() else int(text)

    assert parse("7") == Ok(7)
    assert isinstance(parse("?").unwrap_err(), ValueError)
    assert isinstance(parse("one").unwrap_err(), KeyError)
    with pytest.raises(AttributeError):
        parse(7)  # type: ignore[arg-type]
    assert (parse.__name__, parse.__doc__) == ("parse", "Read a number.")


async def test_as_async_result_catches_the_named_exceptions_only() -> None:
    @as_async_result(ValueError)
    async def parse(text: str) -> int:
        return int(text)

    assert await parse("7") == Ok(7)
    assert isinstance((await parse("?")).unwrap_err(), ValueError)
    with pytest.raises(TypeError):
        await parse([])  # type: ignore[arg-type]


@pytest.mark.parametrize("decorator", [as_result, as_async_result])
@pytest.mark.parametrize("wrong", [(), (int,), (ValueError("an instance"),)])
def test_as_result_wants_exception_classes(decorator: Any, wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="exception classes"):
        decorator(*wrong)


async def later(result: Result[int, str]) -> Result[int, str]:
    return result


def added(first: Result[int, str], second: Result[int, str]) -> Result[int, str]:
    return first.and_then(lambda x: second.map(lambda y: x + y))


@given(results, results)
def test_do_agrees_with_and_then(first: Result[int, str], second: Result[int, str]) -> None:
    assert do(Ok(x + y) for x in first for y in second) == added(first, second)


@given(results, results)
async def test_do_async_agrees_with_do(first: Result[int, str], second: Result[int, str]) -> None:
    expected = added(first, second)
    assert await do_async(Ok(x + y) for x in first for y in second) == expected
    assert await do_async(Ok(x + y) for x in await later(first) for y in second) == expected
    assert await do_async(Ok(x + y) for x in first for y in await later(second)) == expected


def test_steps_after_an_err_do_not_run() -> None:
    ran: list[int] = []

    def step(value: int) -> Result[int, str]:
        ran.append(value)
        return Ok(value)

    assert do(Ok(x + y + z) for x in step(1) for y in Err("stop") for z in step(3)) == Err("stop")
    assert ran == [1]


def test_a_filter_that_leaves_nothing_is_an_error_with_words() -> None:
    with pytest.raises(ValueError, match="has no result"):
        do(Ok(x) for x in Ok(1) if x > 1)


async def test_a_filter_that_leaves_nothing_in_do_async_is_an_error_with_words() -> None:
    with pytest.raises(ValueError, match="has no result"):
        await do_async(Ok(x + y) for x in Ok(1) for y in await later(Ok(1)) if x > 1)


async def test_do_points_to_do_async_when_there_is_an_await_inside() -> None:
    steps = (Ok(x + y) for x in Ok(1) for y in await later(Ok(2)))
    with pytest.raises(TypeError, match="do_async"):
        do(steps)  # type: ignore[arg-type]
    assert await do_async(steps) == Ok(3)


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
