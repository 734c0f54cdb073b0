"""What the report stands on: who lives and serves what, which queue is paused, when the next sweep comes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from horsies.config.recovery import RecoveryConfig
from horsies.operations.findings import SweepState
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import asyncpg

SWEEP = "recovery"
# Six snapshots. A worker that beats or claims is alive as well; see diagnose_holders.sql.
ALIVE_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Consumers:
    """Living workers that are alike. `names` is None where they do not tell, as those of upstream."""

    queues: frozenset[str]
    caps: Mapping[str, int]
    cluster_cap: int | None
    names: frozenset[str] | None
    workers: int
    draining: int

    @property
    def claiming(self) -> int:
        return self.workers - self.draining


@dataclass(frozen=True, slots=True)
class Pause:
    since: datetime
    by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """By the database's clock at `now`."""

    now: datetime
    consumers: tuple[Consumers, ...]
    paused: Mapping[str, Pause]
    settings: RecoveryConfig
    settings_from: str | None
    settings_differ: bool
    sweep: SweepState | None
    keeps_losses: bool
    """Whether the database has a place for what was taken from dead workers."""

    @property
    def alive(self) -> int:
        return sum(consumers.workers for consumers in self.consumers)

    def serving(self, queue: str) -> list[Consumers]:
        return [consumers for consumers in self.consumers if queue in consumers.queues]

    def served(self) -> list[str]:
        """The queues from which somebody claims."""
        return sorted({queue for group in self.consumers if group.claiming for queue in group.queues})

    def known(self) -> dict[str, frozenset[str]]:
        """The names that may run in each served queue, as far as all of its workers tell theirs."""
        told: dict[str, frozenset[str]] = {}
        for queue in self.served():
            names = [group.names for group in self.serving(queue) if group.claiming]
            if None not in names:
                told[queue] = frozenset().union(*(some for some in names if some is not None))
        return told

    def may_run(self, name: str, queue: str) -> bool:
        """Whether somebody claims tasks of this name, as far as they tell."""
        names = self.known().get(queue)
        return queue in self.served() and queue not in self.paused and (names is None or name in names)

    def sweep_in(self, moment: datetime | None = None) -> float | None:
        """Seconds until the first sweep at or after `moment`; None where nobody can say, or nobody lives to sweep."""
        if self.sweep is None or self.sweep.next_in_s is None:
            return None
        after = 0.0 if moment is None else (moment - self.now).total_seconds()
        interval = self.sweep.interval_ms / 1000
        return self.sweep.next_in_s + max(math.ceil((after - self.sweep.next_in_s) / interval), 0) * interval


async def read_cluster(conn: asyncpg.Connection, settings: RecoveryConfig | None = None) -> Cluster:
    """Four to six short reads. To be called in a transaction: it sets the time zone, and all agree about `now`."""
    here = await conn.fetchrow(statement("diagnose_tables"))
    draining = await conn.fetch(statement("diagnose_draining")) if here["worker_orders"] else []
    paused = await conn.fetch(statement("diagnose_paused")) if here["queue_state"] else []
    sweep = await conn.fetchrow(statement("diagnose_sweep"), SWEEP) if here["sweep_state"] else None
    consumers = await conn.fetch(
        statement("diagnose_consumers"), ALIVE_WITHIN_S, [row["worker_id"] for row in draining]
    )
    told_by = None
    if settings is None:
        newest = await conn.fetchrow(statement("diagnose_settings"))
        settings = _settings(newest["recovery_config"]) if newest else None
        told_by = newest["worker_id"] if settings else None
    settings = settings or RecoveryConfig()
    return Cluster(
        now=here["now"],
        consumers=tuple(_consumers(row) for row in consumers),
        paused={row["queue_name"]: Pause(row["paused_at"], row["paused_by"], row["reason"]) for row in paused},
        settings=settings,
        settings_from=told_by,
        settings_differ=_differ(row["recovery_config"] for row in consumers),
        sweep=_sweep(sweep, here["now"], settings, alive=bool(consumers)),
        keeps_losses=here["worker_losses"],
    )


def _consumers(row: Mapping[str, Any]) -> Consumers:
    caps = json.loads(row["queue_max_concurrency"] or "null")
    return Consumers(
        queues=frozenset(row["queues"]),
        caps=caps if isinstance(caps, dict) else {},
        cluster_cap=row["cluster_wide_cap"],
        names=None if row["names"] is None else frozenset(row["names"]),
        workers=row["workers"],
        draining=row["draining"],
    )


def _settings(stored: str | None) -> RecoveryConfig | None:
    """As the worker told them. Not checked: upstream allows other ranges, and a sweep there goes by what it has."""
    told = json.loads(stored) if stored else None
    if not isinstance(told, dict):
        return None
    fields = RecoveryConfig.model_fields
    return RecoveryConfig.model_construct(
        **{key: value for key, value in told.items() if key in fields and type(value) is type(fields[key].default)}
    )


def _differ(stored: Iterable[str | None]) -> bool:
    return len({text for text in stored if text}) > 1


def _sweep(row: Mapping[str, Any] | None, now: datetime, settings: RecoveryConfig, *, alive: bool) -> SweepState | None:
    if row is None:
        return None
    interval_ms = row["interval_ms"] or settings.check_interval_ms
    due = row["ran_at"] + timedelta(milliseconds=interval_ms)
    next_in_s = max((due - now).total_seconds(), 0.0) if alive else None
    return SweepState(row["ran_at"], row["worker_id"], interval_ms, next_in_s)
