"""A stopping worker does not wait half a minute for the next try to store an outcome."""

from __future__ import annotations

import asyncio
import logging

import pytest

from horsies.config.app import WorkerResilienceConfig
from horsies.run import loops
from horsies.run.events import Events
from horsies.run.loops import BEATS, Supervisor, Wake

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
    return Supervisor(PATIENT, Events(logging.getLogger("test_run_loops_hasten")))


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
