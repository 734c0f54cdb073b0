"""Calling a task directly, and running one with stored arguments: always a TaskResult; the code of an exception."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, PositiveInt, field_validator
from task_apps import make_app
from typing_extensions import TypedDict

from horsies import ContractCode, TaskError, TaskResult
from horsies.domain.codec import dump_task_result, load_task_result
from horsies.domain.codes import BUILTIN_CODE_REGISTRY, OperationalErrorCode
from horsies.task.calls import ExceptionCodes
from horsies.task.parameters import Parameters


class Order(BaseModel):
    number: PositiveInt


@dataclass
class Parcel:
    weight: float


class Address(TypedDict):
    street: str


class Opaque:
    """A class that pydantic does not know."""


class LimitError(TaskError):
    limit: int = 0


def task_returning(returned: Any, promised: Any, **options: Any) -> Any:
    """A task whose function returns `returned` with the annotation `promised`."""

    def body(*_args: Any, **_kwargs: Any) -> Any:
        return returned

    body.__annotations__["return"] = promised
    return make_app().task("task", body, **options)


def task_raising(error: BaseException, **options: Any) -> Any:
    def body() -> TaskResult[int, TaskError]:
        raise error

    return make_app(exception_mapper={PermissionError: "FORBIDDEN"}).task("task", body, **options)


def error_of(result: TaskResult[Any, Any]) -> TaskError:
    error = result.err_value
    assert isinstance(error, TaskError)
    return error


@pytest.mark.parametrize(
    ("value", "promised"),
    [
        (3, int),
        (None, None),
        ("3", int),
        (3, float),
        (Order(number=1), Order),
        ({"number": 1}, Order),
        (Parcel(2.5), Parcel),
        ({"street": "Am Markt"}, Address),
        ([Order(number=1)], list[Order]),
        (Opaque(), Opaque),
        ([Opaque()], list[Opaque]),
        ("x", int | str),
        (object(), Any),
    ],
)
def test_a_value_that_fits_its_type_leniently_comes_back_as_it_is(value: object, promised: Any) -> None:
    result = task_returning(TaskResult(ok=value), TaskResult[promised, TaskError])()
    assert result.ok_value is value


@pytest.mark.parametrize(
    ("value", "promised", "spelled"),
    [
        ("three", int, "int"),
        (None, int, "int"),
        (1, None, "NoneType"),
        ({"number": -1}, Order, "Order"),
        ("parcel", Parcel, "Parcel"),
        ({"house": 3}, Address, "Address"),
        ([1, "x"], list[int], "list[int]"),
        (3, Opaque, "Opaque"),
    ],
)
def test_a_value_of_another_type_is_a_mismatch_that_says_what_was_wrong(
    value: object, promised: Any, spelled: str
) -> None:
    error = error_of(task_returning(TaskResult(ok=value), TaskResult[promised, TaskError])())
    assert error.error_code is ContractCode.RETURN_TYPE_MISMATCH
    assert error.data["variant"] == "ok"
    assert error.data["expected_type"] == spelled
    assert error.data["actual_value"] == repr(value)
    assert error.data["validation_errors"][0]["msg"]
    json.dumps(error.data)


def test_an_error_of_another_type_is_a_mismatch_of_the_other_variant() -> None:
    error = error_of(task_returning(TaskResult(err=TaskError(error_code="X")), TaskResult[int, LimitError])())
    assert error.error_code is ContractCode.RETURN_TYPE_MISMATCH
    assert (error.data["variant"], error.data["expected_type"]) == ("err", "LimitError")


def test_a_mismatch_of_a_huge_value_stays_small() -> None:
    error = error_of(task_returning(TaskResult(ok=["x"] * 100_000), TaskResult[list[int], TaskError])())
    assert len(error.data["validation_errors"]) == 10
    assert len(json.dumps(error.data)) < 5_000


def test_returning_none_is_an_error_that_names_none() -> None:
    error = error_of(task_returning(None, TaskResult[int, TaskError])())
    assert error.error_code is OperationalErrorCode.TASK_EXCEPTION
    assert "None" in (error.message or "")


@pytest.mark.parametrize("returned", [3, {"ok": 1}, TaskResult, Order(number=1)])
def test_returning_anything_else_than_a_result_is_an_error_that_names_its_type(returned: object) -> None:
    error = error_of(task_returning(returned, TaskResult[int, TaskError])())
    assert error.error_code is OperationalErrorCode.TASK_EXCEPTION
    assert f"returned {type(returned).__name__}, not a TaskResult" in (error.message or "")


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text from me")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("bad"), "Unhandled exception in task body: ValueError: bad"),
        (SystemExit(3), "Unhandled exception in task body: SystemExit: 3"),
        (GeneratorExit(), "Unhandled exception in task body: GeneratorExit: "),
        (HostileError(), "Unhandled exception in task body: HostileError: <exception str() failed>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_task_raises_becomes_its_error(raised: BaseException, text: str) -> None:
    error = error_of(task_raising(raised)())
    assert error.error_code is OperationalErrorCode.UNHANDLED_EXCEPTION
    assert error.message == text
    assert error.data == {"exception_type": type(raised).__name__}
    assert error.exception is raised


def test_the_code_comes_from_the_mapper_chain() -> None:
    assert error_of(task_raising(PermissionError())()).error_code == "FORBIDDEN"
    assert error_of(task_raising(PermissionError(), exception_mapper={PermissionError: "MINE"})()).error_code == "MINE"
    assert error_of(task_raising(ValueError(), default_unhandled_error_code="ODD")()).error_code == "ODD"


def test_an_exception_with_a_code_of_its_own_is_not_called_unhandled() -> None:
    assert error_of(task_raising(PermissionError("no"))()).message == "PermissionError: no"
    mine = task_raising(ValueError("odd"), exception_mapper={ValueError: "MINE"})
    assert error_of(mine()).message == "ValueError: odd"


def test_a_returned_error_never_meets_the_mapper() -> None:
    returned = TaskResult(err=TaskError(error_code="MINE", exception=PermissionError()))
    task = task_returning(returned, TaskResult[int, TaskError], exception_mapper={PermissionError: "OTHER"})
    assert task().err_value.error_code == "MINE"


def test_ctrl_c_gets_out_of_a_direct_call_but_not_out_of_a_worker() -> None:
    task = task_raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        task()
    assert error_of(task.run([], {})).data == {"exception_type": "KeyboardInterrupt"}


def test_endless_recursion_is_an_error_of_the_task() -> None:
    def body(n: int) -> TaskResult[int, TaskError]:
        return body(n + 1)

    error = error_of(make_app().task("deep", body).run([0], {}))
    assert error.data == {"exception_type": "RecursionError"}
    assert load_task_result(dump_task_result(TaskResult(err=error))).is_err()


def test_a_validator_of_the_users_that_raises_is_an_error_of_the_task() -> None:
    class Odd(BaseModel):
        size: int

        @field_validator("size")
        @classmethod
        def look_up(cls, _size: int) -> int:
            raise LookupError("no idea")

    error = error_of(task_returning(TaskResult(ok={"size": 1}), TaskResult[Odd, TaskError])())
    assert error.data == {"exception_type": "LookupError"}


RAISED = st.sampled_from(
    [ValueError, KeyError, SystemExit, KeyboardInterrupt, MemoryError, GeneratorExit, HostileError]
)
OUTCOMES = st.one_of(
    st.builds(lambda kind, text: kind(text), RAISED, st.text()),
    st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(), st.lists, max_leaves=5),
    st.builds(lambda value: TaskResult(ok=value), st.integers() | st.text() | st.binary()),
    st.builds(lambda text: TaskResult(err=TaskError(error_code="X", message=text)), st.text()),
)


@given(OUTCOMES, st.sampled_from([int, str, Order, list[int], None, Any]))
def test_whatever_a_task_does_a_result_that_can_be_stored_comes_out(outcome: Any, promised: Any) -> None:
    def body() -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    body.__annotations__["return"] = TaskResult[promised, TaskError]
    result = make_app().task("task", body).run([], {})
    assert isinstance(result, TaskResult)
    assert load_task_result(dump_task_result(result)).is_err() == result.is_err() or isinstance(result.ok, bytes)


def join(a: int, /, b: str, *rest: int, c: bool = False, **more: float) -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"{a}{b}{rest}{c}{more}")


def shift(a: int = 1, /, b: int = 2, **more: int) -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"{a}{b}{more}")


def pair(a: int, b: int = 2) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)


def nullary() -> TaskResult[int, TaskError]:
    return TaskResult(ok=0)


@given(
    st.sampled_from([join, shift, pair, nullary]),
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers()),
)
def test_arguments_fit_exactly_when_python_would_take_them(
    fn: Callable[..., Any], args: list[int], kwargs: dict[str, int]
) -> None:
    try:
        fn(*args, **kwargs)
    except TypeError:
        taken = False
    else:
        taken = True
    parameters = Parameters(fn)
    for _ in range(2):  # the second answer may be cached
        assert (parameters.why_not(args, kwargs) is None) == taken


def named(a: int = 1, b: int = 2, /, **more: int) -> dict[str, Any]:
    return {"a": a, "b": b, "more": more}


@given(
    st.lists(st.integers(), max_size=2), st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(), min_size=1)
)
def test_a_keyword_named_as_a_positional_only_parameter_is_one_of_the_others(
    args: list[int], kwargs: dict[str, int]
) -> None:
    """Signature.bind of Python 3.11 refuses such a call, so that two equal calls counted as different ones."""
    expected = named(*args, **kwargs)
    values = dict(Parameters(named).by_name(args, kwargs))
    assert values == {name: expected[name] for name in values}
    assert values["more"] == kwargs


def test_endless_shapes_of_calls_are_not_all_remembered() -> None:
    parameters = Parameters(join)
    for number in range(1000):
        assert parameters.why_not([1, "b"], {f"name_{number}": 1}) is None
    assert len(parameters._fitting) == 64
    assert parameters.why_not([1], {"name_999": 1}) == (
        "arguments do not fit join(a, /, b, *rest, c=False, **more): missing a required argument: 'b'"
    )


def test_stored_arguments_that_do_not_fit_are_a_documented_code_and_no_call() -> None:
    calls = []

    def body(a: int, *, b: int = 2) -> TaskResult[int, TaskError]:
        calls.append(a)
        return TaskResult(ok=a)

    error = error_of(make_app().task("add", body).run([1, 2], {"c": 3}))
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert error.message == (
        "task 'add' was not run: the stored arguments do not fit body(a, *, b=2): too many positional arguments"
    )
    assert calls == []


def test_a_direct_call_with_wrong_arguments_is_an_exception_like_any_other() -> None:
    error = error_of(make_app(exception_mapper={TypeError: "WRONG"}).task("add", pair)(1, 2, 3))  # type: ignore[call-arg]
    assert error.error_code == "WRONG"


async def double(a: int) -> TaskResult[int, TaskError]:
    await asyncio.sleep(0)
    return TaskResult(ok=2 * a)


async def test_an_async_task_is_awaited() -> None:
    task = make_app().task("double", double)
    assert (await task(4)).ok_value == 8
    assert (await task.run_async([4], {})).ok_value == 8


async def test_an_async_task_with_wrong_stored_arguments_is_not_started() -> None:
    error = error_of(await make_app().task("double", double).run_async([], {}))
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR


@pytest.mark.parametrize("raised", [ValueError("bad"), SystemExit(2), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_what_an_async_task_raises_becomes_its_error(raised: BaseException) -> None:
    async def body() -> TaskResult[int, TaskError]:
        raise raised

    error = error_of(await make_app().task("task", body).run_async([], {}))
    assert error.error_code is OperationalErrorCode.UNHANDLED_EXCEPTION
    assert error.data == {"exception_type": type(raised).__name__}


async def test_cancelling_an_async_task_from_outside_cancels_it() -> None:
    started = asyncio.Event()

    async def body() -> TaskResult[int, TaskError]:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    running = asyncio.create_task(make_app().task("task", body).run_async([], {}))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_an_abandoned_async_task_closes_quietly() -> None:
    class Pause:
        def __await__(self) -> Generator[None]:
            yield

    async def body() -> TaskResult[int, TaskError]:
        await Pause()
        raise AssertionError

    hooked: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, hooked.append
    try:
        coroutine = make_app().task("task", body)()
        coroutine.send(None)
        coroutine.close()
    finally:
        sys.unraisablehook = before
    assert hooked == []


CODES = st.sampled_from(["TIMEOUT", "NO_ROUTE", "BROKEN", "A1", *BUILTIN_CODE_REGISTRY])
MAPPERS = st.dictionaries(st.sampled_from([TimeoutError, OSError, ValueError, SystemExit]), CODES)


@given(
    task_mapper=st.none() | MAPPERS,
    app_mapper=MAPPERS,
    task_default=st.none() | CODES,
    app_default=CODES,
    kind=st.sampled_from([TimeoutError, OSError, ValueError, SystemExit, ConnectionError]),
)
def test_the_first_rule_that_has_something_to_say_decides(
    task_mapper: dict[type[BaseException], str] | None,
    app_mapper: dict[type[BaseException], str],
    task_default: str | None,
    app_default: str,
    kind: type[BaseException],
) -> None:
    codes = ExceptionCodes(task_mapper, app_mapper, task_default, app_default)
    candidates = [(task_mapper or {}).get(kind), app_mapper.get(kind), task_default, app_default]
    assert codes.code_of(kind()) == next(code for code in candidates if code is not None)


def test_the_name_of_a_builtin_code_becomes_the_member() -> None:
    codes = ExceptionCodes({OSError: "WORKER_CRASHED"}, {}, None, "UNHANDLED_EXCEPTION")
    assert codes.code_of(OSError()) is OperationalErrorCode.WORKER_CRASHED
    assert codes.code_of(ValueError()) is OperationalErrorCode.UNHANDLED_EXCEPTION
