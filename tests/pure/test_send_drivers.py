"""The two drivers of a sequence of calls: a caller that blocks and one that awaits get the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from horsies.store.loop_thread import drive_awaited, drive_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.store.loop_thread import CallSteps

DRIVERS: dict[str, Callable[[CallSteps[Any]], Any]] = {
    "blocking": drive_blocking,
    "awaited": lambda steps: asyncio.run(drive_awaited(steps)),
}
both = pytest.mark.parametrize("drive", DRIVERS.values(), ids=DRIVERS)


def double(number: int) -> int:
    return 10 // number * 2


async def double_async(number: int) -> int:
    await asyncio.sleep(0)
    return double(number)


def doubling(*numbers: int) -> CallSteps[list[int]]:
    doubled = [0] * len(numbers)
    for place, number in enumerate(numbers):
        doubled[place] = yield double, double_async, (number,)
    return doubled


@both
def test_each_answer_is_given_to_the_steps_and_their_result_is_returned(drive: Callable[..., Any]) -> None:
    assert drive(doubling()) == []
    assert drive(doubling(1, 2, 5)) == [20, 10, 4]


@both
def test_what_a_call_raises_is_raised_in_the_steps_which_may_go_on(drive: Callable[..., Any]) -> None:
    def careful() -> CallSteps[list[int]]:
        with suppress(ZeroDivisionError):
            yield from doubling(0)
        return (yield from doubling(1))

    assert drive(careful()) == [20]
    with pytest.raises(ZeroDivisionError):
        drive(doubling(1, 0))


@both
@pytest.mark.parametrize("ending", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interrupt_of_a_call_ends_the_blocks_around_it(
    drive: Callable[..., Any], ending: type[BaseException]
) -> None:
    ended: list[type[BaseException]] = []

    @contextmanager
    def span() -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            ended.append(type(error))
            raise

    def interrupted() -> Any:
        raise ending

    async def interrupted_async() -> Any:
        raise ending

    def steps() -> CallSteps[None]:
        with span():
            yield interrupted, interrupted_async, ()

    with pytest.raises(ending):
        drive(steps())
    assert ended == [ending]
