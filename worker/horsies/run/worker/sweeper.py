"""Sweeps and retention: every worker offers to run them, one at a time does."""

from __future__ import annotations

import random
import time
from functools import partial
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
from horsies.store.worker_states import CLAIMS, RUNS, UPKEEP, elect, sweep_name, write_report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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
_MOST_LOGGED = 5


class PeriodicJob(Protocol):
    """Work that one of all workers does at an interval; its name identifies it between workers."""

    name: str
    interval_ms: int

    async def do(self, connection: asyncpg.Connection) -> dict[str, Any]:
        """Do it, and report what was done."""
        ...


class Election:
    """The loop that runs periodic jobs. It checks the table for the next one, whichever worker ran it last.

    So if the elected worker is killed, the delay is the interval at most, and of several workers with different
    intervals the shortest applies. The short queries use a connection that this worker has anyway; the jobs get a
    connection of their own while they run.
    """

    def __init__(
        self,
        name: str,
        jobs: Sequence[PeriodicJob],
        identity: Identity,
        upkeep: DedicatedConnection,
        dedicated: DedicatedConnection,
        *,
        on_done: Callable[[str, float], None] = lambda _job, _seconds: None,
        step_timeout_s: float = _SWEEP_TIMEOUT_S,
    ) -> None:
        self.name = name
        self._on_done = on_done
        self.step_timeout_s = step_timeout_s
        self.interval_s = min(job.interval_ms for job in jobs) / 1000
        self.wake = Wake()
        self.dedicated = dedicated
        self._upkeep = upkeep
        self._jobs = jobs
        self._worker_id = identity.worker_id
        self._elected: set[PeriodicJob] = set()
        self._due_at: dict[PeriodicJob, float] = {}

    async def step(self) -> None:
        async with self._upkeep.acquire() as connection:
            for job in self._jobs:
                if job not in self._elected:
                    await self._ask(connection, job)
        failed: list[Exception] = []
        for job in [one for one in self._jobs if one in self._elected]:
            try:
                await self._do(job)
            except Exception as error:  # noqa: BLE001 - a rule that fails must not prevent the others
                failed.append(error)
        if failed:
            raise failed[0]
        await self.dedicated.close()
        self.interval_s = max(min(self._due_at.values()) - time.monotonic(), _SHORTEST_WAIT_S)

    async def _ask(self, connection: asyncpg.Connection, job: PeriodicJob) -> None:
        now = time.monotonic()
        due_in_s = await elect(connection, job.name, self._worker_id, job.interval_ms)
        if due_in_s is None:
            self._elected.add(job)
            self._due_at[job] = now + job.interval_ms / 1000
            return
        # Spread, so that not all workers check at the same moment.
        spread_s = min(job.interval_ms / 50_000, 1.0) * random.random()  # noqa: S311 - spreads load, guards nothing
        self._due_at[job] = now + due_in_s + _SHORTEST_WAIT_S + spread_s

    async def _do(self, job: PeriodicJob) -> None:
        """Do it. After a failure this worker stays elected: no other worker checks before the next interval."""
        connection = await self.dedicated.ready()
        began = time.monotonic()
        report = await job.do(connection)
        self._on_done(job.name, time.monotonic() - began)
        await write_report(connection, job.name, self._worker_id, report)
        self._elected.discard(job)


def elections(
    config: RecoveryConfig,
    events: Events,
    identity: Identity,
    upkeep: DedicatedConnection,
    dedicated: Callable[[str], DedicatedConnection],
) -> list[Election]:
    """Return the loops of the periodic jobs, for a worker with these settings."""
    rules, done = rules_of(config, events), events.sweep_ended
    prune, prune_s = [Retention(config, events)], _PRUNE_TIMEOUT_S
    return [
        Election("recovery", rules, identity, upkeep, dedicated("recovery"), on_done=done),
        Election("retention", prune, identity, upkeep, dedicated("retention"), on_done=done, step_timeout_s=prune_s),
    ]


def rules_of(config: RecoveryConfig, events: Events) -> list[PeriodicJob]:
    """Return the rules that are switched on."""
    rules: list[PeriodicJob] = []
    if config.auto_requeue_stale_claimed:
        rules.append(StaleSweep.of_claims(config, events))
    if config.auto_fail_stale_running:
        rules.append(StaleSweep.of_runs(config, events))
    return [*rules, Recovery(config, events)]


class StaleSweep:
    """Recovers rows of silent workers by a threshold.

    Workers with different thresholds have separate elections: otherwise the one with the shorter interval would always
    win, and the threshold of the other would never apply.
    """

    def __init__(
        self,
        rule: str,
        threshold_ms: int,
        beat_ms: int,
        sweep: Callable[[asyncpg.Connection], Awaitable[Recovered]],
        config: RecoveryConfig,
        events: Events,
    ) -> None:
        self._sweep = sweep
        self.name = sweep_name(rule, threshold_ms)
        self.interval_ms = config.check_interval_ms
        self._rule = rule
        self._threshold_ms = threshold_ms
        self._beat_ms = beat_ms
        self._config = config
        self._events = events
        self._spared = False

    @classmethod
    def of_claims(cls, config: RecoveryConfig, events: Events) -> StaleSweep:
        """Return the job that requeues tasks that a worker has claimed and no longer beats for."""
        threshold_ms, beat_ms = config.claimed_stale_threshold_ms, config.claimer_heartbeat_interval_ms
        sweep = partial(requeue_stale_claims, threshold_ms=threshold_ms, beat_ms=beat_ms)
        return cls(CLAIMS, threshold_ms, beat_ms, sweep, config, events)

    @classmethod
    def of_runs(cls, config: RecoveryConfig, events: Events) -> StaleSweep:
        """Return the job that counts tasks as crashed that a worker has started and no longer beats for."""
        threshold_ms, beat_ms = config.running_stale_threshold_ms, config.runner_heartbeat_interval_ms
        final_ms = config.finalizing_stale_threshold_ms
        sweep = partial(recover_stale_runs, threshold_ms=threshold_ms, finalizing_ms=final_ms, beat_ms=beat_ms)
        return cls(RUNS, threshold_ms, beat_ms, sweep, config, events)

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
            events.warn("reconciliation skipped locked workflows", ids=reconciled.locked[:_MOST_LOGGED])
        _log_refused(events, "reconciliation", "workflow", reconciled.refused)


def _log_refused(events: Events, who: str, what: str, refused: Sequence[RejectedItem[str]]) -> None:
    for one in refused[:_MOST_LOGGED]:
        events.warn(f"{who} skipped a {what}", id=one.item, error=one.error)
    if len(refused) > _MOST_LOGGED:
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
        for refused in done.refused[:_MOST_LOGGED]:
            self._events.warn("retention skipped a row", row=refused.item, error=refused.error)
        if len(done.refused) > _MOST_LOGGED:
            self._events.warn("retention skipped rows", count=len(done.refused))
        return done.report()
