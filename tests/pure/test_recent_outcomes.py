"""The worker's memory of outcomes: bounded, and certain about whether a task has run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run.worker.in_flight import RecentOutcomes

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def token(number: int) -> Token:
    return Token(f"task-{number}", "me", NOW + timedelta(seconds=number))


def ended(number: int, result: str | None = "{}", kind: OutcomeKind = OutcomeKind.COMPLETED) -> Outcome:
    return Outcome(token(number), kind, result)


def test_what_has_ended_is_known_with_its_outcome() -> None:
    recent = RecentOutcomes()
    recent.add(ended(1))
    assert (recent.has_run(token(1)), recent.outcome(token(1))) == (True, ended(1))
    assert (recent.has_run(token(2)), recent.outcome(token(2))) == (False, None)


def test_what_was_stopped_before_it_began_has_not_run() -> None:
    recent = RecentOutcomes()
    recent.add(ended(1, None, OutcomeKind.NOT_BEGUN))
    assert not recent.has_run(token(1))


def test_of_many_results_the_oldest_go_first_and_leave_that_there_was_one() -> None:
    recent = RecentOutcomes(most_chars=100)
    for number in range(5):
        recent.add(ended(number, "x" * 40))
    assert [recent.outcome(token(number)) is None for number in range(5)] == [True, True, True, False, False]
    assert all(recent.has_run(token(number)) for number in range(5))
    recent.add(ended(4, "y" * 40))  # stored a second time: counted once
    assert recent.outcome(token(3)) is not None


def test_of_what_is_forgotten_it_is_known_until_when() -> None:
    recent = RecentOutcomes(most=3)
    for number in (10, 11, 12, 13, 14):
        recent.add(ended(number))
    assert [recent.outcome(token(number)) is None for number in (10, 11, 12)] == [True, True, False]
    assert recent.has_run(token(10))
    assert recent.has_run(token(9))  # a claim as old as that may have run
    assert not recent.has_run(token(15))


def test_what_it_holds_is_bounded_however_many_end() -> None:
    recent = RecentOutcomes(most=50)
    for number in range(1_000):
        recent.add(ended(number))
    assert (len(recent._ran), len(recent._outcomes), recent._chars) == (50, 50, 100)
