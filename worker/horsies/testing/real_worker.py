"""Drain with a real worker: its children run the tasks, its own loops claim and store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from horsies.lifecycle.recovering import expire_pending
from horsies.run.events import Events, Observer
from horsies.run.settings import WorkerSettings
from horsies.run.worker.lifespan import locator_of
from horsies.run.worker.worker import Worker
from horsies.store.statements import statement
from horsies.testing.claims import connected, pass_time, queues_of
from horsies.testing.here import Ran

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.app import Horsies
    from horsies.run.worker.in_flight import InFlightTask

_LOOK_S = 0.02


class Expired(Observer):
    """Counts the tasks that expire, which the worker's status line does not show."""

    def __init__(self) -> None:
        self.count = 0

    def task_expired(self, entry: InFlightTask) -> None:
        self.count += 1

    def swept(self, text: str, counts: Mapping[str, Any]) -> None:
        """The worker's own sweep may expire tasks before the drain does, where runs take long."""
        self.count += counts.get("expired", 0)


async def drain_in_children(app: Horsies, seconds: float, processes: int) -> Ran:
    """Run until nothing is due and nothing runs; then stop the worker."""
    events, worker_expired = Events(), Expired()
    events.observers.append(worker_expired)
    async with AsyncExitStack() as stack:
        connection = await connected(app, stack)
        worker = Worker(app, WorkerSettings(locator_of(app), processes=processes), events)
        try:
            await worker.start()
        except BaseException:
            await worker.abort()
            raise
        stack.push_async_callback(worker.stop)
        expired = await _until_quiet(connection, worker, seconds)
    return Ran(events.finished, events.failed, events.retried, worker_expired.count + expired)


async def _until_quiet(connection: asyncpg.Connection, worker: Worker, seconds: float) -> int:
    """Returns how many tasks have expired without being claimed."""
    queues, names = queues_of(worker.app), list(worker.app.tasks)
    expired = 0
    while True:
        while await _is_busy(connection, worker, queues, names):  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(_LOOK_S)
        # The worker's own sweep usually expires them seconds later.
        if done := (await expire_pending(connection)).expired:
            expired += done
            continue
        passed = await pass_time(connection, queues, seconds)
        if passed is None:
            return expired
        seconds -= passed
        worker.claimer.wake.set()  # no notification is sent when times are moved


async def _is_busy(connection: asyncpg.Connection, worker: Worker, queues: list[str], names: list[str]) -> bool:
    """Checked twice: the first answer may be from between the end of a node's task and its advance."""
    for _ in range(2):
        if await connection.fetchval(statement(__name__, "is_busy"), queues, names):
            return True
        if worker.flow.outbox.pending + worker.advancer.pending:
            return True
    return False
