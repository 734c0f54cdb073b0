"""What a worker keeps of a claim that had to search."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask, TupleId
from horsies.run.worker.claim_order import ClaimOrder

A, B, C = (0, 1), (0, 2), (7, 1)


def claimed(after: list[TupleId] | None = None, number: int | None = None) -> list[ClaimedTask]:
    token = Token("t", "worker", datetime(2026, 1, 1, tzinfo=UTC))
    return [
        ClaimedTask(token, 0.0, "shop.send", "default", 100, None, None, False, None, 0, 0, False, None, number, after)
    ]


def order_after(after: list[TupleId]) -> ClaimOrder:
    order = ClaimOrder()
    order.remember("default", None, claimed(after), is_async=False)
    return order


def test_what_a_search_has_found_is_claimed_next() -> None:
    order = order_after([A, B])
    assert order.following("default", 5, is_async=False) == [A, B]
    assert order.following("default", 5, is_async=True) is None
    assert order.following("other", 5, is_async=False) is None


def test_the_rest_of_what_a_search_has_found_is_claimed_after_it() -> None:
    order = order_after([A, B, C])
    order.remember("default", [A, B, C], claimed(number=2), is_async=False)
    assert order.following("default", 5, is_async=False) == [C]
    order.remember("default", [C], claimed(number=1), is_async=False)
    assert order.following("default", 5, is_async=False) == []


def test_a_claim_is_given_some_tasks_more_than_it_wants_and_not_all() -> None:
    found = [(0, number) for number in range(100)]
    order = order_after(found)
    given = order.following("default", 2, is_async=False)
    assert given == found[:18]
    order.remember("default", given, claimed(number=2), is_async=False)
    assert order.following("default", 2, is_async=False) == found[2:20]


@pytest.mark.parametrize("given", [[A, B, C], [(9, 9)]])
def test_a_late_answer_changes_nothing(given: list[TupleId]) -> None:
    """Two claims are under way at once, or another one has searched meanwhile."""
    order = order_after([B, C])
    order.remember("default", given, claimed(number=1), is_async=False)
    assert order.following("default", 5, is_async=False) == [B, C]


def test_a_new_task_makes_the_next_claim_search() -> None:
    order = order_after([A, B])
    order.expire()
    assert order.following("default", 5, is_async=False) == []


def test_a_search_whose_tasks_are_used_up_is_repeated() -> None:
    assert order_after([]).following("default", 5, is_async=False) == []


def test_a_claim_that_found_the_first_tasks_needs_no_search() -> None:
    order = order_after([A, B])
    order.remember("default", [A, B], claimed(), is_async=False)
    assert order.following("default", 5, is_async=False) is None
