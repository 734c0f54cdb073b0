"""A worker that stops does not wait half a minute for the next try of what it has to store."""

from __future__ import annotations

import asyncio
import logging

import pytest

from horsies.config.resilience import WorkerResilienceConfig
from horsies.run.events import Events
from horsies.run.loops import Supervisor, Wake

PATIENT = WorkerResilienceConfig(db_retry_initial_ms=30_000, db_retry_max_ms=30_000)


class Lane:
    """What a loop that never reaches a database needs of one."""

    def discard(self) -> None:
        """Nothing is held."""


class Store:
    """A loop that fails so often, and then succeeds."""

    name = "store"
    interval_s = 60.0
    step_timeout_s = 60.0

    def __init__(self, failures: int) -> None:
        self.wake = Wake()
        self.lane = Lane()
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
    return Supervisor(PATIENT, Events(logging.getLogger("test_loops_haste")))


async def test_haste_ends_the_pause_after_a_failure_and_shortens_the_next_ones(supervisor: Supervisor) -> None:
    loop = Store(failures=2)
    supervisor.start([loop])  # type: ignore[list-item]
    async with asyncio.timeout(5):
        await loop.failed.wait()
        supervisor.hasten()
        await loop.stored.wait()
    await supervisor.stop_all()


async def test_without_haste_the_pause_is_the_configured_one(supervisor: Supervisor) -> None:
    loop = Store(failures=1)
    supervisor.start([loop])  # type: ignore[list-item]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await loop.stored.wait()
    await supervisor.stop_all()
