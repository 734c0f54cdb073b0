"""Ok and Err: the effect of each method on each side, and do-notation over several results."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

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
