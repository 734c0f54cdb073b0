"""Large changes in small transactions: a bad item fails alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from horsies.domain.errors import ErrorCode
from horsies.store.connect import DatabaseUnavailable
from horsies.store.isolate_bad_rows import ROW_ERRORS, RejectedItem, isolate_bad_rows


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
