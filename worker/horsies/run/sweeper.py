"""Sweeps and retention: every worker offers itself, one at a time does it."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Protocol

from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import recover
from horsies.lifecycle.retention import ages_of, prune
from horsies.run.loops import Wake
from horsies.store.sweep_state import take_duty, write_report

if TYPE_CHECKING:
    import asyncpg

    from horsies.config.recovery import RecoveryConfig
    from horsies.lifecycle.reconciling import Reconciled
    from horsies.lifecycle.recovering import Recovered
    from horsies.run.events import Events
    from horsies.run.outage import Outage
    from horsies.run.settings import Identity
    from horsies.store.lane import Lane

_PRUNE_EVERY_MS = 3_600_000
_PRUNE_BUDGET_S = 300.0
_SHORTEST_WAIT_S = 0.05
_TOLD = 5


class Chore(Protocol):
    """What is to be done at an interval by one worker of all."""

    name: str
    interval_ms: int
    step_timeout_s: float

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        """Do it, and say what was done."""
        ...


class Duty:
    """The loop around a chore. It looks whenever the chore is due by the table, whoever did it last.

    So a worker that is killed on duty is missed for no longer than the interval. The short question goes over the lane
    that this worker has anyway; the chore gets a connection of its own, for as long as it lasts.
    """

    def __init__(self, chore: Chore, identity: Identity, upkeep: Lane, lane: Lane) -> None:
        self.name = chore.name
        self.interval_s = chore.interval_ms / 1000
        self.step_timeout_s = chore.step_timeout_s
        self.wake = Wake()
        self.lane = lane
        self._upkeep = upkeep
        self._chore = chore
        self._worker_id = identity.worker_id
        self._on_duty = False

    async def step(self) -> None:
        interval_s = self._chore.interval_ms / 1000
        began = time.monotonic()
        if not self._on_duty:
            async with self._upkeep.turn() as connection:
                due_in_s = await take_duty(connection, self.name, self._worker_id, self._chore.interval_ms)
            if due_in_s is not None:
                # Not all workers at the very same moment, and none much later than that.
                spread_s = min(interval_s / 50, 1.0) * random.random()  # noqa: S311 - spreads load, guards nothing
                self.interval_s = due_in_s + _SHORTEST_WAIT_S + spread_s
                return
        self._on_duty = True  # still so after a failure: nobody else looks before the next interval
        connection = await self.lane.ready()
        report = await self._chore.do(connection)
        await write_report(connection, self.name, self._worker_id, report)
        self._on_duty = False
        await self.lane.close()
        self.interval_s = max(interval_s - (time.monotonic() - began), _SHORTEST_WAIT_S)


class Recovery:
    """Sets free and settles what has stopped giving signs of life, and brings workflows back into step."""

    name = "recovery"
    step_timeout_s = 120.0

    def __init__(self, config: RecoveryConfig, events: Events, outage: Outage) -> None:
        self.interval_ms = config.check_interval_ms
        self._config = config
        self._events = events
        self._outage = outage
        self._sparing = False

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        spare_runs = self._outage.excuses(
            self._config.running_stale_threshold_ms / 1000, self._config.runner_heartbeat_interval_ms / 1000
        )
        if spare_runs and not self._sparing:
            self._events.note("sweep spares what runs", reason="the database was away, and who lives beats again soon")
        self._sparing = spare_runs
        done = await recover(connection, self._config, spare_runs=spare_runs)
        reconciled = await reconcile_all(connection, self._config.crashed_worker_recovery_grace_ms)
        self._tell(done, reconciled)
        return done.report() | reconciled.report()

    def _tell(self, done: Recovered, reconciled: Reconciled) -> None:
        self._events.swept(
            "swept",
            changed=done.changed + reconciled.repairs,
            requeued=done.requeued,
            retried=done.retried,
            failed=done.failed,
            expired=done.expired,
            repairs=reconciled.repairs,
            workflows=reconciled.workflows,
        )
        for refused in done.refused[:_TOLD]:
            self._events.warn("sweep stepped over a task", id=refused.item, error=refused.error)
        if len(done.refused) > _TOLD:
            self._events.warn("sweep stepped over tasks", count=len(done.refused))
        if reconciled.locked:
            self._events.warn("reconciliation left locked workflows", ids=reconciled.locked[:_TOLD])
        for refused in reconciled.refused[:_TOLD]:
            self._events.warn("reconciliation stepped over a workflow", id=refused.item, error=refused.error)
        if len(reconciled.refused) > _TOLD:
            self._events.warn("reconciliation stepped over workflows", count=len(reconciled.refused))


class Retention:
    """Deletes what is over and older than the configuration wants it kept."""

    name = "retention"
    interval_ms = _PRUNE_EVERY_MS
    step_timeout_s = 2 * _PRUNE_BUDGET_S

    def __init__(self, config: RecoveryConfig, events: Events) -> None:
        self._ages = ages_of(config)
        self._events = events

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        done = await prune(connection, self._ages, budget_s=_PRUNE_BUDGET_S)
        self._events.swept("pruned", changed=sum(done.rows.values()), **done.rows, complete=done.complete)
        for refused in done.refused[:_TOLD]:
            self._events.warn("retention stepped over a row", row=refused.item, error=refused.error)
        if len(done.refused) > _TOLD:
            self._events.warn("retention stepped over rows", count=len(done.refused))
        return done.report()
