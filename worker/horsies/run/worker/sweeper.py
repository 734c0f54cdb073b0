"""Sweeps and retention: every worker offers to run them, one at a time does."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from horsies.lifecycle.reconciling import reconcile_all
from horsies.lifecycle.recovering import (
    end_silent_sessions,
    expire_pending,
    recover_stale_runs,
    requeue_stale_claims,
)
from horsies.lifecycle.retention import ages_of, prune
from horsies.run.loops import Wake
from horsies.store.pulse import pulse_every_s, read_pulse, write_pulse
from horsies.store.worker_states import CLAIMS, RUNS, UPKEEP, sweep_name, take_duty, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import asyncpg

    from horsies.config.recovery import RecoveryConfig
    from horsies.lifecycle.reconciling import Reconciled
    from horsies.lifecycle.recovering import Recovered
    from horsies.run.events import Events
    from horsies.run.settings import Identity
    from horsies.store.dedicated_connection import DedicatedConnection
    from horsies.store.isolate_bad_rows import RejectedItem

_PRUNE_EVERY_MS = 3_600_000
_PRUNE_BUDGET_S = 300.0
_SWEEP_TIMEOUT_S = 120.0
_PRUNE_TIMEOUT_S = 2 * _PRUNE_BUDGET_S
_SHORTEST_WAIT_S = 0.05
_TOLD = 5


class Chore(Protocol):
    """Work that one of all workers does at an interval; its name identifies it between workers."""

    name: str
    interval_ms: int

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        """Do it, and report what was done."""
        ...


class Duty:
    """The loop around chores. It checks whenever one is due by the table, whichever worker ran it last.

    So if a worker is killed on duty, the delay is the interval at most, and of several workers with different intervals
    the shortest applies. The short queries use a connection that this worker has anyway; the chores get a connection of
    their own while they run.
    """

    def __init__(
        self,
        name: str,
        chores: Sequence[Chore],
        identity: Identity,
        upkeep: DedicatedConnection,
        lane: DedicatedConnection,
        *,
        on_done: Callable[[str, float], None] = lambda _chore, _seconds: None,
        step_timeout_s: float = _SWEEP_TIMEOUT_S,
    ) -> None:
        self.name = name
        self._on_done = on_done
        self.step_timeout_s = step_timeout_s
        self.interval_s = min(chore.interval_ms for chore in chores) / 1000
        self.wake = Wake()
        self.lane = lane
        self._upkeep = upkeep
        self._chores = chores
        self._worker_id = identity.worker_id
        self._on_duty: set[Chore] = set()
        self._due_at: dict[Chore, float] = {}

    async def step(self) -> None:
        async with self._upkeep.turn() as connection:
            for chore in self._chores:
                if chore not in self._on_duty:
                    await self._ask(connection, chore)
        failed: list[Exception] = []
        for chore in [one for one in self._chores if one in self._on_duty]:
            try:
                await self._do(chore)
            except Exception as error:  # noqa: BLE001 - a rule that fails must not prevent the others
                failed.append(error)
        if failed:
            raise failed[0]
        await self.lane.close()
        self.interval_s = max(min(self._due_at.values()) - time.monotonic(), _SHORTEST_WAIT_S)

    async def _ask(self, connection: asyncpg.Connection, chore: Chore) -> None:
        now = time.monotonic()
        due_in_s = await take_duty(connection, chore.name, self._worker_id, chore.interval_ms)
        if due_in_s is None:
            self._on_duty.add(chore)
            self._due_at[chore] = now + chore.interval_ms / 1000
            return
        # Spread, so that not all workers check at the same moment.
        spread_s = min(chore.interval_ms / 50_000, 1.0) * random.random()  # noqa: S311 - spreads load, guards nothing
        self._due_at[chore] = now + due_in_s + _SHORTEST_WAIT_S + spread_s

    async def _do(self, chore: Chore) -> None:
        """The duty is kept after a failure: no other worker checks before the next interval."""
        connection = await self.lane.ready()
        began = time.monotonic()
        report = await chore.do(connection)
        self._on_done(chore.name, time.monotonic() - began)
        await write_report(connection, chore.name, self._worker_id, report)
        self._on_duty.discard(chore)


def duties(
    config: RecoveryConfig,
    events: Events,
    identity: Identity,
    upkeep: DedicatedConnection,
    lane: Callable[[str], DedicatedConnection],
) -> list[Duty]:
    """The duties that a worker with these settings offers."""
    rules, done = rules_of(config, events), events.sweep_ended
    prune, prune_s = [Retention(config, events)], _PRUNE_TIMEOUT_S
    return [
        Duty("recovery", rules, identity, upkeep, lane("recovery"), on_done=done),
        Duty("retention", prune, identity, upkeep, lane("retention"), on_done=done, step_timeout_s=prune_s),
    ]


def rules_of(config: RecoveryConfig, events: Events) -> list[Chore]:
    """The rules that a worker with these settings sweeps by: those that are switched on."""
    rules: list[Chore] = []
    if config.auto_requeue_stale_claimed:
        rules.append(StaleClaims(config, events))
    if config.auto_fail_stale_running:
        rules.append(StaleRuns(config, events))
    return [*rules, Recovery(config, events)]


class _Stale(ABC):
    """Detects silent rows by a threshold.

    Workers with different thresholds have separate duties: otherwise the one with the shorter interval would always
    have it, and the threshold of the other would never apply.
    """

    def __init__(self, rule: str, threshold_ms: int, beat_ms: int, config: RecoveryConfig, events: Events) -> None:
        self.name = sweep_name(rule, threshold_ms)
        self.interval_ms = config.check_interval_ms
        self._rule = rule
        self._threshold_ms = threshold_ms
        self._beat_ms = beat_ms
        self._config = config
        self._events = events
        self._spared = False

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        await write_pulse(connection, self._config, pulse_every_s(self._config))
        pulse = await read_pulse(connection, self._threshold_ms, self._beat_ms)
        until = None if pulse is None else pulse.spared_until
        if pulse is not None and until is not None and not self._spared and not pulse.is_first:
            reason = "no worker could beat, or none lived; those that live beat again until then"
            self._events.note(f"sweep spares {self._rule}", until=f"{until:%H:%M:%S}Z", reason=reason)
        self._spared = until is not None
        done = await self._sweep(connection)
        for crash in done.crashes:
            self._events.run_crashed(crash)
        _log_sweep(self._events, self._rule, done)
        return done.report() | {"threshold_ms": self._threshold_ms, "spared_until": until and until.isoformat()}

    @abstractmethod
    async def _sweep(self, connection: asyncpg.Connection) -> Recovered: ...


class StaleClaims(_Stale):
    """Requeues tasks that a worker has claimed and no longer beats for."""

    def __init__(self, config: RecoveryConfig, events: Events) -> None:
        beat_ms = config.claimer_heartbeat_interval_ms
        super().__init__(CLAIMS, config.claimed_stale_threshold_ms, beat_ms, config, events)

    async def _sweep(self, connection: asyncpg.Connection) -> Recovered:
        return await requeue_stale_claims(connection, threshold_ms=self._threshold_ms, beat_ms=self._beat_ms)


class StaleRuns(_Stale):
    """Counts tasks as crashed that a worker has started and no longer beats for."""

    def __init__(self, config: RecoveryConfig, events: Events) -> None:
        beat_ms = config.runner_heartbeat_interval_ms
        super().__init__(RUNS, config.running_stale_threshold_ms, beat_ms, config, events)

    async def _sweep(self, connection: asyncpg.Connection) -> Recovered:
        finalizing_ms = self._config.finalizing_stale_threshold_ms
        return await recover_stale_runs(
            connection, threshold_ms=self._threshold_ms, finalizing_ms=finalizing_ms, beat_ms=self._beat_ms
        )


class Recovery:
    """The sweeps that no setting disables: overdue PENDING tasks expire, and inconsistent workflows are repaired.

    First it ends sessions that hold locks for a stopped process.
    """

    name = UPKEEP

    def __init__(self, config: RecoveryConfig, events: Events) -> None:
        self.interval_ms = config.check_interval_ms
        self._grace_ms = config.crashed_worker_recovery_grace_ms
        self._events = events

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        for name in await end_silent_sessions(connection):
            self._events.warn("silent session terminated", of=name, reason="its process is stopped or cut off")
        done = await expire_pending(connection)
        reconciled = await reconcile_all(connection, self._grace_ms)
        _log_sweep(self._events, UPKEEP, done, reconciled)
        return done.report() | reconciled.report()


def _log_sweep(events: Events, rule: str, done: Recovered, reconciled: Reconciled | None = None) -> None:
    repairs, workflows = (0, 0) if reconciled is None else (reconciled.repairs, reconciled.workflows)
    events.swept(
        "swept",
        rule=rule,
        changed=done.changed + repairs,
        requeued=done.requeued,
        retried=done.retried,
        failed=done.failed,
        expired=done.expired,
        repairs=repairs,
        workflows=workflows,
    )
    _log_refused(events, "sweep", "task", done.refused)
    if reconciled is not None:
        if reconciled.locked:
            events.warn("reconciliation skipped locked workflows", ids=reconciled.locked[:_TOLD])
        _log_refused(events, "reconciliation", "workflow", reconciled.refused)


def _log_refused(events: Events, who: str, what: str, refused: Sequence[RejectedItem[str]]) -> None:
    for one in refused[:_TOLD]:
        events.warn(f"{who} skipped a {what}", id=one.item, error=one.error)
    if len(refused) > _TOLD:
        events.warn(f"{who} skipped {what}s", count=len(refused))


class Retention:
    """Deletes rows of ended work that are older than the configuration wants them kept."""

    name = "retention"
    interval_ms = _PRUNE_EVERY_MS

    def __init__(self, config: RecoveryConfig, events: Events) -> None:
        self._ages = ages_of(config)
        self._events = events

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        done = await prune(connection, self._ages, budget_s=_PRUNE_BUDGET_S)
        self._events.swept("pruned", changed=sum(done.rows.values()), **done.rows, complete=done.complete)
        for refused in done.refused[:_TOLD]:
            self._events.warn("retention skipped a row", row=refused.item, error=refused.error)
        if len(done.refused) > _TOLD:
            self._events.warn("retention skipped rows", count=len(done.refused))
        return done.report()
