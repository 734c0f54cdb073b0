"""A bad item of many fails alone; coalesced calls each get their own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from horsies.domain.errors import ErrorCode
from horsies.store.connect import DatabaseUnavailable
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, isolate_bad_rows
from horsies.store.producer_client import Coalescer


async def halves(numbers: Sequence[int]) -> list[float]:
    return [1 / number for number in numbers]


async def test_an_item_whose_row_is_damaged_costs_the_others_nothing() -> None:
    done = await isolate_bad_rows([[1, 0, 2], [4]], halves, damage=ROW_ERRORS)
    assert done.answers == [[1.0], [0.5], [0.25]]
    assert done.refused == [RejectedItem(0, "ZeroDivisionError: division by zero")]


async def test_an_error_that_is_no_damage_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await isolate_bad_rows([[1, 0]], halves)


async def test_a_database_that_is_away_is_no_fault_of_an_item() -> None:
    async def away(_: Sequence[int]) -> None:
        raise DatabaseUnavailable("it is away", help_text="start it", transient=False)

    with pytest.raises(DatabaseUnavailable) as raised:
        await isolate_bad_rows([[1, 2]], away, damage=ROW_ERRORS)
    assert raised.value.code is ErrorCode.BROKER_INVALID_URL


MOST = 5


class Doubling:
    """Doubles numbers, refuses negative ones, and fails as a whole at zero."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.in_flight = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.coalescer: Coalescer[int, int] = Coalescer(self.run, most=MOST)

    async def run(self, items: Sequence[int]) -> list[int | BaseException]:
        self.batches.append(list(items))
        self.in_flight += 1
        assert self.in_flight == 1
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        if 0 in items:
            raise ZeroDivisionError
        return [ValueError(item) if item < 0 else 2 * item for item in items]


async def test_a_lone_caller_is_answered_in_his_own_task() -> None:
    doubling = Doubling()
    before = asyncio.all_tasks()
    seen: set[asyncio.Task[object]] = set()
    doubling.gate.clear()
    caller = asyncio.create_task(doubling.coalescer.ask(4))
    await asyncio.sleep(0)
    seen = asyncio.all_tasks() - before
    doubling.gate.set()
    assert await caller == 8
    assert seen == {caller}


async def test_calls_during_a_run_share_the_next() -> None:
    doubling = Doubling()
    assert await asyncio.gather(*(doubling.coalescer.ask(number) for number in range(1, 5))) == [2, 4, 6, 8]
    assert doubling.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_its_limit() -> None:
    doubling = Doubling()
    await asyncio.gather(*(doubling.coalescer.ask(number) for number in range(1, 14)))
    assert [len(batch) for batch in doubling.batches] == [1, 5, 5, 2]


async def test_a_refused_item_fails_alone_and_a_failed_run_fails_all_of_it() -> None:
    doubling = Doubling()
    asked = [doubling.coalescer.ask(number) for number in (-1, 1, -2, 2, 3, 4, 0, 5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert doubling.batches == [[-1], [1, -2, 2, 3, 4], [0, 5]]
    assert [str(answer) if isinstance(answer, ValueError) else answer for answer in answers[:6]] == [
        *("-1", 2, "-2", 4, 6, 8)
    ]
    assert [type(answer) for answer in answers[6:]] == [ZeroDivisionError, ZeroDivisionError]
    assert await doubling.coalescer.ask(7) == 14


async def test_cancelled_callers_hold_up_no_other() -> None:
    doubling = Doubling()
    doubling.gate.clear()
    first, second, third = (asyncio.create_task(doubling.coalescer.ask(number)) for number in (1, 2, 3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    doubling.gate.set()
    assert await third == 6
    for gone in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await gone
    assert await doubling.coalescer.ask(4) == 8


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-3, 9), max_size=8), max_size=6))
def test_everyone_gets_the_answer_to_his_own_question(waves: list[list[int]]) -> None:
    async def ask_all() -> None:
        doubling = Doubling()
        asked: list[tuple[int, asyncio.Task[int]]] = []
        for wave in waves:
            asked += [(number, asyncio.create_task(doubling.coalescer.ask(number))) for number in wave]
            await asyncio.sleep(0)
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)
        broken = {number for batch in doubling.batches if 0 in batch for number in batch}
        for number, task in asked:
            if error := task.exception():
                assert number in broken if isinstance(error, ZeroDivisionError) else error.args == (number,)
            else:
                assert task.result() == 2 * number
        assert sorted(number for batch in doubling.batches for number in batch) == sorted(n for n, _ in asked)

    asyncio.run(ask_all())
