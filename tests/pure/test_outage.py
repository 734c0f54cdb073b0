"""After an outage outcomes and beats go first; a stopping worker does not wait half a minute for the next try."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from horsies.config.app import WorkerResilienceConfig
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run import loops
from horsies.run.events import Events
from horsies.run.loops import BEATS, Outage, Supervisor, Wake
from horsies.run.worker.in_flight import RecentOutcomes


class Scene:
    """A worker's outage with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.outage = Outage(lambda: self.now)
        self.waiting: list[float] = []
        self.looks = self.overs = 0
        self.outage.watch(lambda moment: any(at <= moment for at in self.waiting), self._look, self._over)

    def _look(self) -> None:
        self.looks += 1

    def _over(self) -> None:
        self.overs += 1

    def step(self, loop: str) -> None:
        """A step that takes half a second."""
        began = self.now
        self.now += 0.5
        self.outage.step_succeeded(loop, began)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_without_a_failure_nothing_is_held_back(scene: Scene) -> None:
    scene.step("claim")
    assert not scene.outage.holds_back
    assert (scene.looks, scene.overs) == (0, 0)


def test_a_failure_has_the_worker_beat_before_it_claims_again(scene: Scene) -> None:
    scene.outage.step_failed()
    assert scene.outage.holds_back
    assert scene.looks == 1
    scene.step("claim")
    assert scene.outage.holds_back
    scene.step(BEATS)
    assert not scene.outage.holds_back
    assert scene.overs == 1


def test_outcomes_from_before_go_first_and_later_ones_need_not(scene: Scene) -> None:
    scene.waiting = [scene.now - 30, scene.now + 5]
    scene.outage.step_failed()
    scene.step(BEATS)
    assert scene.outage.holds_back
    scene.waiting.pop(0)
    scene.step("finish")
    assert not scene.outage.holds_back


def test_a_beat_that_was_under_way_when_it_was_noticed_proves_nothing(scene: Scene) -> None:
    began = scene.now
    scene.now += 1
    scene.outage.step_failed()
    scene.outage.step_succeeded(BEATS, began)
    assert scene.outage.holds_back
    scene.step(BEATS)
    assert not scene.outage.holds_back


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


PATIENT = WorkerResilienceConfig(db_retry_initial_ms=30_000, db_retry_max_ms=30_000)


class DedicatedConnection:
    """The parts of a connection that a loop needs which never reaches a database."""

    def discard(self) -> None:
        """No connection is held."""


class Store:
    """A loop that fails this often, and then succeeds."""

    name = "store"
    interval_s = 60.0
    step_timeout_s = 60.0

    def __init__(self, failures: int) -> None:
        self.wake = Wake()
        self.dedicated = DedicatedConnection()
        self.failures = failures
        self.failed = asyncio.Event()
        self.stored = asyncio.Event()

    async def step(self) -> None:
        if self.failures:
            self.failures -= 1
            self.failed.set()
            raise OSError
        self.stored.set()


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(PATIENT, Events(logging.getLogger("test_outage")))


async def test_haste_ends_the_pause_after_a_failure_and_shortens_the_next_ones(supervisor: Supervisor) -> None:
    loop = Store(failures=2)
    supervisor.start([loop])  # type: ignore[list-item]
    async with asyncio.timeout(20):
        await loop.failed.wait()
        supervisor.hurry()
        await loop.stored.wait()
    await supervisor.stop_all()


async def test_the_first_loop_that_gets_through_ends_the_pauses_of_all(supervisor: Supervisor) -> None:
    """When each waited its own 30 s, outcomes were stored up to 21 s after new runs had begun."""
    first, others = Store(failures=1), [Store(failures=1) for _ in range(3)]
    first.name, first.interval_s = BEATS, 0.1  # the one that retries often
    for number, other in enumerate(others):
        other.name = f"other {number}"
    supervisor.start([first, *others])  # type: ignore[list-item]
    async with asyncio.timeout(20):
        for loop in (first, *others):
            await loop.stored.wait()
    await supervisor.stop_all()


async def test_a_step_of_those_that_write_which_hangs_is_an_outage(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs, and a network that drops everything, refuse nothing."""
    monkeypatch.setattr(loops, "WATCH_S", 0.02)
    monkeypatch.setattr(loops, "STALLED_S", 0.05)
    noticed, answer = asyncio.Event(), asyncio.Event()

    class Hanging(Store):
        name = "finish"

        async def step(self) -> None:
            await answer.wait()
            self.stored.set()

    loop, beats = Hanging(failures=0), Store(failures=0)
    supervisor.outage.watch(lambda _moment: not loop.stored.is_set(), noticed.set, lambda: None)
    beats.name, beats.interval_s = BEATS, 0.01
    supervisor.start([loop, beats])  # type: ignore[list-item]
    async with asyncio.timeout(20):
        await noticed.wait()
        assert supervisor.outage.holds_back
        answer.set()
        while supervisor.outage.holds_back:  # noqa: ASYNC110 - it notifies only the worker
            await asyncio.sleep(0.01)
    await supervisor.stop_all()
