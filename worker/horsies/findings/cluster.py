"""The data of the recovery report: live workers and their queues, paused queues, the next sweep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from horsies.config.recovery import RecoveryConfig
from horsies.domain.damage import is_whole, json_map, texts
from horsies.domain.quantities import clock
from horsies.store.pulse import read_pulse
from horsies.store.statements import statement
from horsies.store.worker_states import CLAIMS, RUNS, UPKEEP
from horsies.views.cluster import pauses
from horsies.views.workers import drain_orders, had_workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import asyncpg

    from horsies.views.workers import Order

# Six snapshot intervals. A worker that beats or claims is alive as well; see `diagnose_holders`.
ALIVE_WITHIN_S = 30.0
_OWN_TABLES = ("queue_state", "worker_orders", "worker_losses", "sweep_state", "pulse", "schedules")
MISSED = 5
"""Number of intervals without a sweep after which a rule counts as not applied."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """The last sweep of a rule. `next_in_s` is 0 if it is due, None if no live worker could run it.

    The rule `recovery` is run by all workers; `runs` and `claims` may be switched off, and are swept for each threshold
    that a worker has. `workers`: how many live ones have this rule with this threshold.
    """

    ran_at: datetime
    worker_id: str | None
    interval_ms: int
    next_in_s: float | None
    rule: str = "recovery"
    threshold_ms: int | None = None
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Spared:
    """The gap because of which silent rows do not count as dead yet: no worker could beat, or none was running."""

    runs_until: datetime | None
    claims_until: datetime | None
    gap_began: datetime | None  # None for the time before the first worker
    gap_ended: datetime | None  # None while no worker pulses

    @property
    def until(self) -> datetime:
        """The time from which claims and runs are checked for silence again."""
        return max(filter(None, (self.runs_until, self.claims_until)))

    def words(self) -> str:
        """Return why silent rows are spared, and until when."""
        began, ended = self.gap_began, self.gap_ended
        if began is None:
            what = f"No worker had been here before {clock(ended)}" if ended else "No worker has been here yet"
        elif ended is None:
            what = f"No worker has stored a heartbeat since {clock(began)}"
        else:
            what = f"No worker could store a heartbeat from {clock(began)} until {clock(ended)}"
        return f"{what}: until {clock(self.until)}, that time does not count as silence."


@dataclass(frozen=True, slots=True)
class Consumers:
    """Live workers with the same settings. `names` is None if they report none, like upstream's workers."""

    queues: frozenset[str]
    caps: Mapping[str, int]
    cluster_cap: int | None
    names: frozenset[str] | None
    workers: int
    draining: int

    @property
    def claiming(self) -> int:
        return self.workers - self.draining


@dataclass(slots=True)
class Rule:
    """A rule by which live workers sweep. `last` is its last run, `since` the start of the first of these workers."""

    rule: str
    threshold_ms: int | None
    interval_ms: int
    workers: int
    since: datetime | None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster by the database's clock at `now`."""

    now: datetime
    consumers: tuple[Consumers, ...]
    paused: Mapping[str, Order]
    settings: RecoveryConfig
    settings_from: str | None
    settings_differ: bool
    sweeps: tuple[SweepState, ...]
    tables: frozenset[str]
    """Our own tables that exist in the database; upstream creates none of them."""
    unswept: tuple[Rule, ...] = ()
    spared: Spared | None = None
    had_workers: bool = True
    """True if no worker is alive but one has used this database."""

    @property
    def sweep(self) -> SweepState | None:
        """The sweep that all workers run."""
        return next((one for one in self.sweeps if one.rule == UPKEEP), None)

    @property
    def alive(self) -> int:
        return sum(consumers.workers for consumers in self.consumers)

    def serving(self, queue: str) -> list[Consumers]:
        return [consumers for consumers in self.consumers if queue in consumers.queues]

    def served(self) -> list[str]:
        """Return the queues from which at least one worker claims."""
        return sorted({queue for group in self.consumers if group.claiming for queue in group.queues})

    def known(self) -> dict[str, frozenset[str]]:
        """Return the registered names of each served queue, if all of its workers report them."""
        known: dict[str, frozenset[str]] = {}
        for queue in self.served():
            names = [group.names for group in self.serving(queue) if group.claiming]
            if None not in names:
                known[queue] = frozenset().union(*(some for some in names if some is not None))
        return known

    def may_run(self, name: str, queue: str) -> bool:
        """Return whether a worker claims tasks of this name, according to the workers' reports."""
        names = self.known().get(queue)
        return queue in self.served() and queue not in self.paused and (names is None or name in names)

    def sweep_in(self, moment: datetime | None = None, rule: str = UPKEEP) -> float | None:
        """Return the seconds until the first sweep of the rule from `moment` on; None if unknown."""
        after = 0.0 if moment is None else (moment - self.now).total_seconds()
        given = [one for one in self.sweeps if one.rule == rule and one.workers]
        given = given or [one for one in self.sweeps if one.rule == UPKEEP]
        return min((_next(one, after) for one in given if one.next_in_s is not None), default=None)


def _next(sweep: SweepState, after: float) -> float:
    next_in_s, interval = sweep.next_in_s or 0.0, sweep.interval_ms / 1000
    return next_in_s + max(math.ceil((after - next_in_s) / interval), 0) * interval


async def read_cluster(conn: asyncpg.Connection, settings: RecoveryConfig | None = None) -> Cluster:
    """Read the cluster with four to eight short reads, in a transaction, which fixes the time zone and `now`."""
    here = await conn.fetchrow(statement(__name__, "diagnose_tables"))
    draining = await drain_orders(conn) if here["worker_orders"] else {}
    swept = (
        await conn.fetch(statement(__name__, "diagnose_sweep"), [UPKEEP, RUNS, CLAIMS]) if here["sweep_state"] else []
    )
    consumers = await conn.fetch(statement(__name__, "diagnose_consumers"), ALIVE_WITHIN_S, [*draining])
    settings_from = None
    if settings is None:
        newest = await conn.fetchrow(statement(__name__, "diagnose_settings"))
        settings = RecoveryConfig.reported(newest["recovery_config"]) if newest else None
        settings_from = newest["worker_id"] if settings else None
    settings = settings or RecoveryConfig()
    rules = _rules(consumers)
    sweeps = tuple(_sweep(row, here["now"], settings, rules) for row in swept)
    return Cluster(
        now=here["now"],
        consumers=tuple(_consumers(row) for row in consumers),
        paused=await pauses(conn) if here["queue_state"] else {},
        settings=settings,
        settings_from=settings_from,
        settings_differ=len({text for row in consumers if (text := row["recovery_config"])}) > 1,
        sweeps=sweeps,
        tables=frozenset(f"horsies_{name}" for name in _OWN_TABLES if here[name]),
        unswept=tuple(_unswept(rules.values(), sweeps, here["now"])),
        spared=await _spared(conn, settings) if here["pulse"] else None,
        had_workers=bool(consumers) or await had_workers(conn),
    )


def _consumers(row: Mapping[str, Any]) -> Consumers:
    return Consumers(
        queues=frozenset(texts(row["queues"])),
        caps=json_map(row["queue_max_concurrency"], values=is_whole),
        cluster_cap=row["cluster_wide_cap"],
        names=None if row["names"] is None else frozenset(texts(row["names"])),
        workers=row["workers"],
        draining=row["draining"],
    )


def _rules(consumers: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int | None], Rule]:
    """Return the rules of live workers. Upstream's workers, which report no task names, record no sweeps."""
    rules: dict[tuple[str, int | None], Rule] = {}
    for row in consumers:
        settings = RecoveryConfig.reported(row["recovery_config"]) or RecoveryConfig()
        wanted: list[tuple[str, int | None]] = [(UPKEEP, None)]
        if settings.auto_fail_stale_running:
            wanted.append((RUNS, settings.running_stale_threshold_ms))
        if settings.auto_requeue_stale_claimed:
            wanted.append((CLAIMS, settings.claimed_stale_threshold_ms))
        for key in wanted:
            rule = rules.setdefault(key, Rule(*key, settings.check_interval_ms, 0, None))
            rule.interval_ms = min(rule.interval_ms, settings.check_interval_ms)
            rule.workers += row["workers"]
            if row["names"] is not None and (rule.since is None or row["since"] < rule.since):
                rule.since = row["since"]
    return rules


def _unswept(rules: Iterable[Rule], sweeps: Iterable[SweepState], now: datetime) -> Iterable[Rule]:
    """Return rules that workers of this release have enabled for several intervals without a sweep."""
    ran = {(one.rule, one.threshold_ms): one.ran_at for one in sweeps}
    for rule in rules:
        late = timedelta(milliseconds=MISSED * rule.interval_ms)
        last = ran.get((rule.rule, rule.threshold_ms))
        if rule.since is not None and rule.since < now - late and (last is None or last < now - late):
            rule.last = last
            yield rule


def _sweep(
    row: Mapping[str, Any], now: datetime, settings: RecoveryConfig, rules: Mapping[tuple[str, int | None], Rule]
) -> SweepState:
    rule = rules.get((row["rule"], row["threshold_ms"]))
    interval_ms = max(row["interval_ms"] or settings.check_interval_ms, 1)
    due = row["ran_at"] + timedelta(milliseconds=interval_ms)
    next_in_s = max((due - now).total_seconds(), 0.0) if rule else None
    workers = rule.workers if rule else 0
    return SweepState(
        row["ran_at"], row["worker_id"], interval_ms, next_in_s, row["rule"], row["threshold_ms"], workers
    )


async def _spared(conn: asyncpg.Connection, settings: RecoveryConfig) -> Spared | None:
    of_runs = await read_pulse(conn, settings.running_stale_threshold_ms, settings.runner_heartbeat_interval_ms)
    of_claims = await read_pulse(conn, settings.claimed_stale_threshold_ms, settings.claimer_heartbeat_interval_ms)
    sparing = [one for one in (of_runs, of_claims) if one is not None and one.spared_until is not None]
    if of_runs is None or of_claims is None or not sparing:
        return None
    gap = sparing[0]
    ended = None if gap.is_silent else gap.gap_ended
    return Spared(of_runs.spared_until, of_claims.spared_until, gap.gap_began, ended)
