"""What a worker does with the tasks in flight when its children report, and what it keeps of a claim."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from horsies import AppConfig, Horsies, PostgresConfig
from horsies.lifecycle.claim_token import Token
from horsies.lifecycle.claiming import ClaimedTask, TupleId
from horsies.lifecycle.finishing import OutcomeKind
from horsies.run.contract import ChildExit, ChildResult
from horsies.run.events import Events
from horsies.run.settings import WorkerSettings
from horsies.run.worker.claimer import ClaimOrder
from horsies.run.worker.in_flight import InFlightTask, Stage
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
