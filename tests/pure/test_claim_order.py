"""What a worker keeps of a claim that had to search."""

from __future__ import annotations

from datetime import UTC, datetime

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask
from horsies.run.claim_order import ClaimOrder


def claimed(after: list[str] | None) -> list[ClaimedTask]:
    token = Token("t", "worker", datetime(2026, 1, 1, tzinfo=UTC))
    return [ClaimedTask(token, 0.0, "shop.send", "default", 100, None, None, False, None, 0, 0, False, None, after)]


def order_after(after: list[str] | None) -> ClaimOrder:
    order = ClaimOrder()
    order.remember("default", None, claimed(after), is_async=False)
    return order


def test_what_a_search_has_found_is_claimed_next() -> None:
    order = order_after(["a", "b"])
    assert order.following("default", is_async=False) == ["a", "b"]
    assert order.following("default", is_async=True) is None
    assert order.following("other", is_async=False) is None


def test_a_new_task_makes_the_next_claim_search() -> None:
    order = order_after(["a", "b"])
    order.expire()
    assert order.following("default", is_async=False) == []


def test_a_search_whose_tasks_are_used_up_is_repeated() -> None:
    assert order_after([]).following("default", is_async=False) == []


def test_a_claim_that_found_the_first_tasks_needs_no_search() -> None:
    order = order_after(["a", "b"])
    order.remember("default", ["a", "b"], claimed(None), is_async=False)
    assert order.following("default", is_async=False) is None
