"""do-notation: a generator expression over results gives the combined value or the first Err."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from horsies.domain.result import Err, Ok, Result, do, do_async

results = st.one_of(st.integers().map(Ok), st.text(max_size=5).map(Err))


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


def test_the_last_expression_may_be_an_err_itself() -> None:
    assert do(Err(f"{x} is too much") for x in Ok(9)) == Err("9 is too much")


def test_steps_after_an_err_do_not_run() -> None:
    ran: list[int] = []

    def step(value: int) -> Result[int, str]:
        ran.append(value)
        return Ok(value)

    assert do(Ok(x + y + z) for x in step(1) for y in Err("stop") for z in step(3)) == Err("stop")
    assert ran == [1]


def test_an_err_that_comes_first_is_caught_too() -> None:
    assert do(Ok(x) for x in Err("first")) == Err("first")


def test_a_nested_do_keeps_its_own_err() -> None:
    inner = do(Ok(x) for x in Err("inner"))
    assert do(Ok((x, inner)) for x in Ok(1)) == Ok((1, Err("inner")))


def test_exceptions_of_the_steps_are_not_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        do(Ok(1 // x) for x in Ok(0))


def test_a_filter_that_leaves_nothing_is_an_error_with_words() -> None:
    with pytest.raises(ValueError, match="gave no result"):
        do(Ok(x) for x in Ok(1) if x > 1)


async def test_a_filter_that_leaves_nothing_in_do_async_is_an_error_with_words() -> None:
    with pytest.raises(ValueError, match="gave no result"):
        await do_async(Ok(x + y) for x in Ok(1) for y in await later(Ok(1)) if x > 1)


async def test_do_points_to_do_async_when_there_is_an_await_inside() -> None:
    steps = (Ok(x + y) for x in Ok(1) for y in await later(Ok(2)))
    with pytest.raises(TypeError, match="do_async"):
        do(steps)  # type: ignore[arg-type]
    assert await do_async(steps) == Ok(3)


def test_an_ok_iterates_over_its_value() -> None:
    assert list(Ok(1)) == [1]
