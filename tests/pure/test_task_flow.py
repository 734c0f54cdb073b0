"""What a worker does with tasks in flight, what it keeps of a claim, and what goes first after an outage."""

from __future__ import annotations

import asyncio
import logging
import signal
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from horsies import AppConfig, Horsies, PostgresConfig
from horsies.config.app import WorkerResilienceConfig
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask, TupleId
from horsies.lifecycle.finishing import Outcome, OutcomeKind
from horsies.run import loops
from horsies.run.contract import ChildExit, ChildResult
from horsies.run.events import Events
from horsies.run.loops import BEATS, Outage, Supervisor, Wake
from horsies.run.settings import WorkerSettings
from horsies.run.worker.claimer import ClaimOrder
from horsies.run.worker.in_flight import InFlightTask, RecentOutcomes, Stage
from horsies.run.worker.task_flow import TaskFlow

TEN_MB = 10_000_000


class FakeChild:
    """A child that takes jobs and answers nothing."""

    def __init__(self, index: int) -> None:
        self.spec = SimpleNamespace(index=index)
        self.pid = index
        self.remaining: int | None = None
        self.jobs: list[str] = []
        self.holds_results = False

    def submit(self, job: Any, _confirmed_at: int) -> None:
        self.jobs.append(job.key)

    def hold_results(self, hold: bool) -> None:
        self.holds_results = hold


@pytest.fixture
def flow() -> TaskFlow:
    config = AppConfig(
        broker=PostgresConfig(database_url="postgresql://u@db/app"), prefetch_buffer=8, claim_lease_ms=60_000
    )
    app = Horsies(config)
    settings = WorkerSettings("shop:app", processes=2)
    return TaskFlow(app, settings, Events())


@pytest.fixture
def children(flow: TaskFlow) -> list[Any]:
    made = [FakeChild(1), FakeChild(2)]
    for child in made:
        flow.joined(child)  # type: ignore[arg-type]
    return made


def running(flow: TaskFlow, name: str) -> InFlightTask:
    """A task whose job was given to the freest child."""
    now = datetime.now(UTC)
    task = ClaimedTask(Token(name, "w", now), now.timestamp(), "add", "q", 1, None, None, False, None, 0, 0, False)
    entry = InFlightTask(task, is_async=False, timeout_ms=None, requeue_on_interrupt=False, stage=Stage.RUNNING)
    (entry.child,) = flow.reserve(1, is_async=False)
    flow.tasks.add(entry)
    flow.submit(entry, None, None)
    return entry


def result(text: str = "1") -> ChildResult:
    return ChildResult("ok", text, None, None, 0.001)


def end(flow: TaskFlow, entry: InFlightTask, text: str = "1") -> None:
    assert entry.child is not None
    assert entry.job is not None
    flow.ended(entry.child, entry.job.key, result(text))


def become_short(flow: TaskFlow) -> None:
    """Run so many short tasks that a child is given work ahead."""
    for number in range(50):
        end(flow, running(flow, f"short {number}"))
    for entry in flow.outbox.next_batch():
        flow.outbox.stored(entry)


def test_the_freest_child_gets_the_next_task_and_one_that_is_about_to_exit_gets_none(
    flow: TaskFlow, children: list[Any]
) -> None:
    first, second = running(flow, "a"), running(flow, "b")
    assert [first.child, second.child] == children
    assert flow.reserve(1, is_async=False) == []
    end(flow, second)
    assert flow.reserve(2, is_async=False) == [children[1]]
    flow.unreserve(children[1], is_async=False)
    become_short(flow)
    children[1].remaining = 0
    assert flow.reserve(2, is_async=False) == [children[0], children[0]]


def test_a_child_that_dies_crashes_what_it_ran_and_another_one_gets_what_waited_in_it(
    flow: TaskFlow, children: list[Any]
) -> None:
    become_short(flow)
    ran, other, waited = running(flow, "ran"), running(flow, "other"), running(flow, "waited")
    assert (ran.child, waited.child) == (children[0], children[0])
    assert ran.job is not None
    assert waited.job is not None
    flow.exited(children[0], ChildExit(-signal.SIGSEGV, (ran.job.key,), (waited.job.key,)))
    assert (ran.stage, waited.stage, waited.child) == (Stage.FINISHING, Stage.RUNNING, children[1])
    assert children[1].jobs == [other.job and other.job.key, waited.job.key]
    ((entry, ended),) = flow.outbox.next_batch().items()
    assert (entry, ended.outcome.kind) == (ran, OutcomeKind.FAILED)
    assert "killed by SIGSEGV" in (ended.outcome.error_message or "")
    assert flow.children == [children[1]]


def test_what_waited_in_the_last_child_waits_for_the_next_one(flow: TaskFlow) -> None:
    only, entry = FakeChild(1), None
    flow.joined(only)  # type: ignore[arg-type]
    entry = running(flow, "a")
    assert entry.job is not None
    flow.exited(only, ChildExit(0, (), (entry.job.key,)))  # type: ignore[arg-type]
    assert flow.capacity(is_async=False) == 0
    following = FakeChild(1)
    flow.joined(following)  # type: ignore[arg-type]
    assert (following.jobs, entry.child) == ([entry.job.key], following)
    assert flow.take_unbegun() == []


def test_children_keep_their_results_while_too_many_wait_to_be_stored(flow: TaskFlow, children: list[Any]) -> None:
    entries = []
    for number in range(4):
        entries.append(running(flow, f"large {number}"))
        assert not children[0].holds_results
        end(flow, entries[-1], "x" * TEN_MB)
    late = FakeChild(3)
    flow.joined(late)  # type: ignore[arg-type]
    assert [child.holds_results for child in (*children, late)] == [True, True, True]
    for entry, held in zip(entries, (True, True, False), strict=False):  # until half of what is allowed is left
        flow.outbox.stored(entry)
        flow.throttle()
        assert children[1].holds_results is held


def test_an_outcome_that_is_set_aside_holds_up_no_result(flow: TaskFlow, children: list[Any]) -> None:
    entries = [running(flow, f"large {number}") for number in range(2)]
    for entry in entries:
        end(flow, entry, "x" * 2 * TEN_MB)
    assert children[0].holds_results
    flow.outbox.reject(entries[0], ValueError("a trigger forbids it"))
    flow.outbox.reject(entries[1], ValueError("a trigger forbids it"))
    flow.throttle()
    assert not children[0].holds_results
    assert (flow.outbox.pending, flow.outbox.rejected, flow.outbox.next_batch()) == (0, 2, {})
    flow.outbox.offer_rejected()
    flow.throttle()
    assert children[0].holds_results
    assert list(flow.outbox.next_batch()) == [entries[0]], "a batch has a largest size"


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


def test_a_claim_searches_after_a_new_task_or_when_all_are_used_up_but_not_where_the_first_were_found() -> None:
    order = order_after([A, B])
    order.expire()
    assert order.following("default", 5, is_async=False) == []
    assert order_after([]).following("default", 5, is_async=False) == []
    order = order_after([A, B])
    order.remember("default", [A, B], claimed(), is_async=False)
    assert order.following("default", 5, is_async=False) is None


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
    return Supervisor(PATIENT, Events(logging.getLogger("test_task_flow")))


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
