"""Stored results and errors: neither direction raises, and errors are restored with their types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from codec_models import ORDER_TEXT, PaymentError, load_task_error, load_task_result, load_value

from horsies.domain.codec import dump_task_error, dump_task_result, storable_task_result, with_retries_spent
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode
from horsies.domain.states import WorkflowStatus
from horsies.domain.task_result import SubWorkflowError, SubWorkflowSummary, TaskError, TaskResult

GONE = ORDER_TEXT.replace("Order", "Gone")
ORDER = load_value(ORDER_TEXT)


def sub_workflow_error(output: Any = None) -> SubWorkflowError:
    return SubWorkflowError(
        error_code=OutcomeCode.SUBWORKFLOW_FAILED,
        message="the child failed",
        sub_workflow_id="w-1",
        sub_workflow_summary=SubWorkflowSummary(WorkflowStatus.FAILED, output, 2, 1, 1, 0, "why"),
    )


def test_a_failed_result_has_the_text_of_the_contract() -> None:
    result = TaskResult(err=TaskError(error_code=OperationalErrorCode.WORKER_CRASHED, message="gone"))
    assert dump_task_result(result) == (
        '{"__task_result__":true,"ok":null,"err":{"__task_error__":true,'
        '"error_code":{"__builtin_task_code__":"WORKER_CRASHED"},"data":null,"message":"gone"}}'
    )
    assert load_task_result(dump_task_result(result)) == result


@pytest.mark.parametrize(
    "result",
    [
        TaskResult(ok=None),
        TaskResult(ok=ORDER),
        TaskResult(ok={"demo:3": TaskResult(ok=1), "demo:4": None}),
        TaskResult(err=TaskError()),
        TaskResult(err=TaskError(error_code="MINE", data={"order": ORDER}, message="no")),
        TaskResult(err=PaymentError(error_code="MINE", order=ORDER, attempts=2)),
        TaskResult(err=sub_workflow_error({"order": ORDER})),
        TaskResult(err="a plain text"),
        TaskResult(err={"message": "a dict of the user"}),
        TaskResult(err=ORDER),
    ],
    ids=repr,
)
def test_a_result_comes_back_as_it_was(result: TaskResult[Any, Any]) -> None:
    found = load_task_result(dump_task_result(result))
    assert found == result
    assert type(found.err) is type(result.err)


def test_a_sub_workflow_error_is_stored_with_an_untagged_summary_and_can_be_matched_afterwards() -> None:
    tree = json.loads(dump_task_result(TaskResult(err=sub_workflow_error())))["err"]
    assert tree["sub_workflow_id"] == "w-1"
    assert tree["sub_workflow_summary"] == {
        "status": "FAILED",
        "output": None,
        "total_tasks": 2,
        "completed_tasks": 1,
        "failed_tasks": 1,
        "skipped_tasks": 0,
        "error_summary": "why",
    }
    match load_task_result(dump_task_result(TaskResult(err=sub_workflow_error()))).err:
        case SubWorkflowError(sub_workflow_id="w-1", sub_workflow_summary=summary):
            assert summary.status is WorkflowStatus.FAILED
            assert summary.failed_tasks == 1
        case other:
            pytest.fail(f"{other!r} is no SubWorkflowError")


def test_a_sub_workflow_error_with_a_damaged_summary_stays_a_task_error_at_least() -> None:
    text = dump_task_error(sub_workflow_error()).replace('"w-1"', "7")
    error = load_task_error(text)
    assert type(error) is TaskError
    assert error.error_code is OutcomeCode.SUBWORKFLOW_FAILED


def test_a_process_without_the_error_class_still_reads_its_code() -> None:
    text = dump_task_error(PaymentError(error_code="MINE", message="no", data=[1], order=ORDER))
    for address in ("Gone", "Order", "a_function"):
        error = load_task_error(text.replace('"qualname":"PaymentError"', f'"qualname":"{address}"'))
        assert type(error) is TaskError
        assert (error.error_code, error.message, error.data) == ("MINE", "no", [1])


def test_an_error_keeps_its_code_when_its_data_cannot_be_rebuilt() -> None:
    text = dump_task_error(TaskError(error_code="MINE", data={"order": ORDER})).replace('"Order"', '"Gone"')
    error = load_task_error(text)
    assert error.error_code == "MINE"
    assert error.data == {"order": json.loads(GONE)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "7",
        "null",
        "[]",
        "{}",
        '{"__task_result__":true}',
        '{"ok":1,"err":{"message":"both"}}',
        "[" * 100_000,
    ],
)
def test_corrupt_text_is_a_broker_error(text: str) -> None:
    error = load_task_result(text).err_value
    assert error.error_code is OperationalErrorCode.BROKER_ERROR
    assert "result" in error.message


@pytest.mark.parametrize("text", ["", "{", "7", "null", "[]"])
def test_a_corrupt_error_column_is_a_broker_error(text: str) -> None:
    assert load_task_error(text).error_code is OperationalErrorCode.BROKER_ERROR


@pytest.mark.parametrize(
    "stored",
    [
        f'{{"__task_result__":true,"ok":{GONE},"err":null}}',
        f'{{"__task_result__":true,"ok":[{{"deep":{GONE}}}],"err":null}}',
        f'{{"__task_result__":true,"ok":{ORDER_TEXT.replace("7", "null", 1)},"err":null}}',
        '{"__task_result__":true,"ok":null,"err":{"__task_error__":true,"message":7}}',
        f'{{"__task_result__":true,"ok":null,"err":{GONE}}}',
    ],
)
def test_a_value_that_cannot_be_rebuilt_is_a_hydration_error(stored: str) -> None:
    error = load_task_result(stored).err_value
    assert error.error_code is ContractCode.PYDANTIC_HYDRATION_ERROR
    assert "result." in error.message


def test_one_lost_class_does_not_spoil_the_other_results_of_a_workflow() -> None:
    inner = f'{{"__task_result__":true,"ok":{GONE},"err":null}}'
    good = '{"__task_result__":true,"ok":1,"err":null}'
    text = f'{{"__task_result__":true,"ok":{{"bad":{inner},"good":{good}}},"err":null}}'
    found = load_task_result(text).ok_value
    assert found["good"] == TaskResult(ok=1)
    assert found["bad"].err.error_code is ContractCode.PYDANTIC_HYDRATION_ERROR
    assert "result.ok.bad.ok" in found["bad"].err.message


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ('{"ok":42,"err":null}', TaskResult(ok=42)),
        ('{"ok":42}', TaskResult(ok=42)),
        ('{"ok":null,"err":null}', TaskResult(ok=None)),
        (
            '{"ok":null,"err":{"error_code":"MINE","message":"no"}}',
            TaskResult(err=TaskError(error_code="MINE", message="no")),
        ),
        (
            '{"err":{"__task_error__":true,"error_code":{"__builtin_task_code__":"TASK_EXPIRED"}}}',
            TaskResult(err=TaskError(error_code=OutcomeCode.TASK_EXPIRED)),
        ),
    ],
)
def test_results_of_the_old_form_are_read(stored: str, expected: TaskResult[Any, Any]) -> None:
    assert load_task_result(stored) == expected


def test_codes_of_other_writers_are_read() -> None:
    plain = '{"__task_error__":true,"error_code":"WORKER_CRASHED"}'
    assert load_task_error(plain).error_code is OperationalErrorCode.WORKER_CRASHED
    newer = '{"__task_error__":true,"error_code":{"__builtin_task_code__":"OF_TOMORROW"}}'
    assert load_task_error(newer).error_code == "OF_TOMORROW"


@pytest.mark.parametrize("value", [{1}, "\ud800", float("nan"), object()])
def test_a_result_that_cannot_be_written_becomes_the_fixed_error(value: Any) -> None:
    stored, text = storable_task_result(TaskResult(ok=[value]))
    assert stored.err.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert stored.err.message == "secondary serialization failure"
    assert "[0]: " in stored.err.data["reason"]
    assert load_task_result(text) == stored
    assert dump_task_result(TaskResult(ok=[value])) == text


@pytest.mark.parametrize("value", [{1}, "\ud800", float("nan"), object()])
@pytest.mark.parametrize("code", ["MINE", OperationalErrorCode.WORKER_CRASHED])
def test_an_error_whose_data_cannot_be_written_keeps_its_code_and_message(code: Any, value: Any) -> None:
    stored, text = storable_task_result(TaskResult(err=TaskError(error_code=code, message="why", data=[value])))
    assert (stored.err.error_code, stored.err.message) == (code, "why")
    assert "[0]: " in stored.err.data["reason"]
    assert load_task_result(text) == stored


def test_an_error_that_cannot_be_written_becomes_the_fixed_error() -> None:
    error = load_task_error(dump_task_error(TaskError(data={1})))
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert error.data == {"reason": "error.data: set is not JSON; annotate it as set[...], or convert it to a list"}


def raised(exception: BaseException) -> BaseException:
    try:
        raise exception
    except type(exception) as caught:
        return caught


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def recursed() -> BaseException:
    def forever() -> None:
        forever()

    try:
        forever()
    except RecursionError as error:
        return error
    raise AssertionError("the stack has no end")


@pytest.mark.parametrize(
    ("exception", "name", "message"),
    [
        (raised(ValueError("x")), "ValueError", "x"),
        (KeyError("never raised"), "KeyError", "'never raised'"),
        (raised(KeyboardInterrupt()), "KeyboardInterrupt", ""),
        (raised(MuteError()), "MuteError", "<exception str() failed>"),
        (raised(OSError("a\0b\ud800c")), "OSError", "ab\ufffdc"),
        (recursed(), "RecursionError", "maximum recursion depth exceeded"),
        (raised(ExceptionGroup("both", [ValueError("x"), KeyError("y")])), "ExceptionGroup", "both (2 sub-exceptions)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_an_exception_is_stored_as_type_message_and_traceback(
    exception: BaseException, name: str, message: str
) -> None:
    stored = json.loads(dump_task_error(TaskError(error_code="MINE", exception=exception)))["exception"]
    assert list(stored) == ["type", "message", "traceback"]
    assert (stored["type"], stored["message"]) == (name, message)
    assert name in stored["traceback"]
    if exception.__traceback__ is not None:
        assert stored["traceback"].lstrip(" +").startswith(("Traceback", "Exception Group Traceback"))


def test_fifty_megabytes_of_exception_text_are_cut() -> None:
    text = dump_task_error(TaskError(exception=raised(ValueError("x" * 50_000_000))))
    assert len(text) < 60_000
    assert "[shortened from 50000000 characters]" in text


def test_the_stored_form_of_an_exception_passes_through() -> None:
    stored = {"type": "ValueError", "message": "x", "traceback": "…"}
    text = dump_task_error(TaskError(exception=stored))
    assert json.loads(text)["exception"] == stored
    assert load_task_error(text).exception == stored
    assert "exception" not in json.loads(dump_task_error(TaskError()))


def test_surrogates_in_a_message_do_not_cost_the_error() -> None:
    error = load_task_error(dump_task_error(TaskError(error_code="MINE", message="no file a\ud800")))
    assert (error.error_code, error.message) == ("MINE", "no file a\ufffd")


@pytest.mark.parametrize("empty", [None, {}])
def test_the_error_of_the_last_try_says_in_its_empty_data_that_no_retry_is_left(empty: dict[str, Any] | None) -> None:
    code = OperationalErrorCode.WORKER_CRASHED
    text = dump_task_result(TaskResult(err=TaskError(error_code=code, data=empty, message="größer")))
    error = load_task_result(with_retries_spent(text, retry_count=2, max_retries=2)).err_value
    assert "retry" in str(error.data)  # what the documentation of retry policies looks for
    assert error == TaskError(
        error_code=code,
        data={"reason": "all retries are spent", "retry_count": 2, "max_retries": 2},
        message="größer",
    )


def of_exception(code: OperationalErrorCode | str) -> TaskError:
    """As the engine makes it of an exception."""
    return TaskError(error_code=code, exception=ValueError("x"), data={"exception_type": "ValueError"})


@pytest.mark.parametrize(
    "error",
    [
        of_exception("MAPPED"),
        of_exception(OperationalErrorCode.UNHANDLED_EXCEPTION),
        TaskError(error_code=OperationalErrorCode.WORKER_CRASHED, data={"worker_id": "w", "how": "SIGKILL"}),
    ],
    ids=repr,
)
def test_data_that_the_engine_made_says_so_as_well(error: TaskError) -> None:
    text = dump_task_result(TaskResult(err=error))
    spent = load_task_result(with_retries_spent(text, retry_count=2, max_retries=2)).err_value.data
    assert "retry" in str(spent)
    assert spent == {**error.data, "reason": "all retries are spent", "retry_count": 2, "max_retries": 2}


@pytest.mark.parametrize(
    "result",
    [
        TaskResult(err=TaskError(error_code="MINE", data={"exception_type": "of my own"})),
        TaskResult(err=TaskError(error_code="MINE", exception=ValueError("x"), data={"limit": 5})),
        *(TaskResult(err=TaskError(error_code="MINE", data=data)) for data in ({"limit": 5}, [], "", 0, False)),
        TaskResult(err=PaymentError(error_code="MINE", order=ORDER, attempts=2)),
        TaskResult(err={"data": None}),
        TaskResult(err="a plain text"),
    ],
    ids=repr,
)
def test_an_error_with_data_or_of_a_class_of_its_own_stays_as_the_task_gave_it(result: TaskResult[Any, Any]) -> None:
    text = dump_task_result(result)
    assert with_retries_spent(text, retry_count=2, max_retries=2) == text
