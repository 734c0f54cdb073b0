"""The workers: their newest snapshot, their tasks, and whether they are alive by the database's clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from horsies.domain.damage import is_whole, json_map, number, texts
from horsies.store.statements import statement
from horsies.store.worker_states import STOPPED
from horsies.views.reader_session import aware, decoded, tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    import asyncpg

LATE_AFTER_S: Final = 12.0
"""Seconds without a sign of life after which a worker is late: two snapshots and the time to take one."""
GONE_AFTER_S: Final = 30.0
"""Seconds without a sign of life after which a worker is lost: six snapshots; horsies.operations uses the same."""
SNAPSHOT_EVERY_S: Final = 5.0
"""The interval of horsies.run.worker.snapshots."""
FIRST_WORKER_WITHIN_S: Final = 10.0
"""Seconds that a task may wait without an alert if no worker has ever run: the first one may be starting."""
MOST_IDS: Final = 200
"""Maximum number of tasks listed per worker; a worker with 8 processes has 16 in flight."""
_MAX_LOSSES: Final = 1_000
"""Maximum number of newest rows read, each with at most 200 tasks; an open console reads them every two seconds."""


Sign: TypeAlias = Literal["snapshot", "beat", "claim"]


_UNSEEN: Final[Sign] = "claim"


class Liveness(StrEnum):
    ALIVE = "alive"
    DRAINING = "draining"
    """Alive, but no longer claims tasks: by an operator's order, or because it stops."""
    LATE = "late"
    LOST = "lost"
    """Silent for so long that it counts as dead, and its last snapshot did not announce a stop."""
    DIED = "died"
    """Lost, with its tasks recovered."""
    STOPPED = "stopped"
    """Stopped: its last snapshot announced a stop, and it had no tasks."""


LIVING: Final = frozenset({Liveness.ALIVE, Liveness.DRAINING, Liveness.LATE})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last report of a worker, in the column order of the statement."""

    at: datetime
    hostname: str
    pid: int
    processes: int
    max_claim_batch: int
    max_claim_per_worker: int
    cluster_wide_cap: int | None
    queues: tuple[str, ...]
    queue_priorities: Mapping[str, int]
    queue_max_concurrency: Mapping[str, int]
    recovery_config: Mapping[str, Any]
    running: int
    claimed: int
    memory_mb: float | None
    children_memory_mb: float | None
    memory_percent: float | None
    cpu_percent: float | None
    started_at: datetime
    version: str | None
    """The version of horsies."""
    draining: bool | None
    app_version: str | None = None

    @property
    def stopped(self) -> bool:
        """True if the worker wrote it at the end of a clean stop."""
        return self.processes == STOPPED

    @property
    def versions(self) -> str:
        """Versions of the application, if known, and of horsies, like `1.4.2, horsies 0.1.0`; empty for upstream."""
        ours = f"horsies {self.version}" if self.version else ""
        return ", ".join(filter(None, (self.app_version, ours)))

    @property
    def whole_memory_mb(self) -> float | None:
        """Memory of the worker, with that of its children if it was measured."""
        return None if self.memory_mb is None else self.memory_mb + (self.children_memory_mb or 0.0)


_ID: Final = re.compile(r"(.+)-([0-9]+)-[0-9a-f]{2,}", re.DOTALL)
"""Matches worker ids as horsies.run.settings.Identity creates them."""


def name_of(worker_id: str) -> str:
    """Return the name of a worker in lists, such as `web-1:4121`; an id of another form is returned unchanged."""
    made = _ID.fullmatch(worker_id)
    return worker_id if made is None else f"{made[1]}:{made[2]}"


def place_of(worker_id: str | None, hostname: str | None, child_pid: int | None) -> str:
    """Return the worker and the child process that ran the code, such as `web-1:4121 child 4133`; empty for neither."""
    if worker_id is None:
        return f"{hostname}:{child_pid}" if hostname and child_pid is not None else hostname or ""
    return name_of(worker_id) if child_pid is None else f"{name_of(worker_id)} child {child_pid}"


@dataclass(frozen=True, slots=True)
class Loss:
    """One worker's loss, in the column order of the statement. `ids` are the first of all tasks, failed ones first."""

    worker_id: str
    taken_at: datetime
    """Time of the last recovery."""
    snapshot_at: datetime | None
    """The worker's last snapshot; None if that was pruned."""
    failed: int
    retried: int
    returned: int
    ids: tuple[str, ...]
    acknowledged_at: datetime | None
    acknowledged_by: str | None

    @property
    def count(self) -> int:
        return self.failed + self.retried + self.returned

    @property
    def is_open(self) -> bool:
        return self.acknowledged_at is None

    @property
    def died_at(self) -> datetime:
        """The time of its last snapshot, which is at most one snapshot interval before the death."""
        return self.snapshot_at or self.taken_at

    @property
    def came_back(self) -> bool:
        """True if the worker has reported since: it had only lost its connection."""
        return self.snapshot_at is not None and self.snapshot_at > self.taken_at

    def words(self, zone: tzinfo | None = UTC) -> str:
        """Return `died 21:02Z with 5 running, 10 claimed: 5 failed, 10 returned`, in local time if `zone` is None."""
        clock = f"{self.died_at.astimezone(zone):%H:%M}{'Z' if zone is UTC else ''}"
        return f"died {clock} with {self.held_words}: {self.outcome_words}"

    @property
    def held_words(self) -> str:
        held = {"running": self.failed + self.retried, "claimed": self.returned}
        return ", ".join(f"{count:,} {what}" for what, count in held.items() if count)

    @property
    def outcome_words(self) -> str:
        became = {"failed": self.failed, "to be retried": self.retried, "returned": self.returned}
        return ", ".join(f"{count:,} {what}" for what, count in became.items() if count)


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker. `running` and `claimed` count the rows that it owns, whatever it reports."""

    id: str
    liveness: Liveness
    seen_at: datetime
    """Its last sign of life, and its source: the evidence for its liveness."""
    seen_by: Sign
    silent_s: float
    running: int
    claimed: int
    snapshot: Snapshot | None
    """The newest snapshot; None if it never wrote one, or if its snapshots were pruned."""
    draining_since: datetime | None
    draining_by: str | None
    draining_reason: str | None
    loss: Loss | None = None
    """The tasks recovered after its death; None for a live worker."""

    @property
    def lives(self) -> bool:
        return self.liveness in LIVING

    @property
    def name(self) -> str:
        """The name in lists, such as `web-1:4121`."""
        return name_of(self.id) if self.snapshot is None else f"{self.snapshot.hostname}:{self.snapshot.pid}"

    def up_until(self, now: datetime) -> datetime:
        """Return the last time at which it is known to have been alive."""
        return now if self.lives else self.seen_at

    @property
    def in_flight(self) -> int:
        return self.running + self.claimed

    @property
    def busy(self) -> int | None:
        """The number of its processes that run a task: a process with many async tasks is busy once.

        Counted from the rows that it owns, at most its processes; None if it reported no processes.
        """
        processes = self.snapshot.processes if self.snapshot is not None else 0
        return min(self.running, processes) if processes else None

    @property
    def load(self) -> float | None:
        """The share of its processes that are busy; never above 1."""
        return None if self.busy is None or self.snapshot is None else self.busy / self.snapshot.processes

    def silent(self, now: datetime) -> timedelta:
        return max(now - self.seen_at, timedelta())


class Order(NamedTuple):
    """An operator's order to drain a worker, or to pause a queue, in the column order of the statements."""

    since: datetime
    by: str | None
    reason: str | None


async def drain_orders(conn: asyncpg.Connection) -> dict[str, Order]:
    """Read the orders to drain, by worker."""
    return {row[0]: Order(*row[1:]) for row in await conn.fetch(statement(__name__, "view_orders"))}


async def had_workers(conn: asyncpg.Connection) -> bool:
    """Return whether a worker has ever used this database."""
    return bool(await conn.fetchval(statement(__name__, "view_had_workers")))


async def worker_rows(
    conn: asyncpg.Connection, *, gone_within: timedelta | None = timedelta(hours=1)
) -> tuple[WorkerRow, ...]:
    """Read workers that have tasks, a report within `gone_within` (None: ever), or an unacknowledged death, by id."""
    here = await tables(conn)
    orders = await drain_orders(conn) if here.worker_orders else {}
    losses = await worker_losses(conn, acknowledged_within=gone_within) if here.worker_losses else {}
    unacknowledged = [loss.worker_id for loss in losses.values() if loss.is_open]
    rows = await conn.fetch(statement(__name__, "view_workers"), gone_within, LATE_AFTER_S, unacknowledged)
    return tuple(_row(tuple(row), orders.get(row["worker_id"]), losses.get(row["worker_id"])) for row in rows)


async def worker_losses(
    conn: asyncpg.Connection, *, acknowledged_within: timedelta | None = timedelta(hours=1)
) -> Mapping[str, Loss]:
    """Read, by worker, all unacknowledged losses, and those `acknowledged_within` this time (None: all)."""
    rows = await conn.fetch(statement(__name__, "view_losses"), acknowledged_within, _MAX_LOSSES, MOST_IDS)
    found = (Loss(*map(aware, row)) for row in rows)
    return {loss.worker_id: replace(loss, ids=texts(loss.ids)) for loss in found}


@dataclass(frozen=True, slots=True)
class Clock:
    """A live worker, and how far its clock is ahead of the database's (behind it: negative)."""

    worker_id: str
    ahead_s: float

    @property
    def is_off(self) -> bool:
        """True if the clock is ahead, or behind by more than the usual time from a start to the first snapshot."""
        return not -30.0 <= self.ahead_s <= 2.0


async def worker_clocks(conn: asyncpg.Connection) -> tuple[Clock, ...]:
    """Read the clocks of workers from the start time that each reported, if its first snapshot still exists."""
    return tuple(
        Clock(*map(decoded, row)) for row in await conn.fetch(statement(__name__, "view_worker_clocks"), GONE_AFTER_S)
    )


def _row(columns: tuple[Any, ...], order: Order | None, loss: Loss | None) -> WorkerRow:
    now, worker_id, running, claimed, act_at, beat_at, *told = columns
    snapshot = _snapshot(told) if told[0] is not None else None
    signs: dict[Sign, datetime | None] = {"snapshot": aware(told[0]), "beat": aware(beat_at), "claim": aware(act_at)}
    # The owner of a task was seen at its claim; rows written with plain SQL may lack even that time.
    seen_at, seen_by = max([(at, by) for by, at in signs.items() if at is not None], default=(now, _UNSEEN))
    silent_s = (now - seen_at).total_seconds()
    draining = order is not None or (snapshot is not None and bool(snapshot.draining))
    liveness = _liveness(silent_s, snapshot, loss, draining=draining, holds=running + claimed)
    died = loss if liveness is Liveness.DIED else None
    ordered: tuple[datetime | None, str | None, str | None] = order or (None, None, None)
    return WorkerRow(worker_id, liveness, seen_at, seen_by, silent_s, running, claimed, snapshot, *ordered, died)


def _liveness(silent_s: float, snapshot: Snapshot | None, loss: Loss | None, *, draining: bool, holds: int) -> Liveness:
    if snapshot is not None and snapshot.stopped and not holds:
        return Liveness.STOPPED
    if silent_s > GONE_AFTER_S:
        if loss is not None and not loss.came_back:
            return Liveness.DIED
        # Stopped workers of earlier releases are draining in their last snapshot.
        announced = snapshot is not None and snapshot.draining and not snapshot.running + snapshot.claimed
        return Liveness.STOPPED if announced and not holds else Liveness.LOST
    if silent_s > LATE_AFTER_S and (holds or not draining):
        return Liveness.LATE
    return Liveness.DRAINING if draining else Liveness.ALIVE


def _snapshot(told: list[Any]) -> Snapshot:
    fields = list(told)
    for time in (0, 17):
        fields[time] = aware(fields[time])
    fields[7] = texts(fields[7])
    for place in (8, 9):
        fields[place] = _numbers(fields[place])
    fields[10] = _settings(fields[10])
    for place in (13, 14, 15, 16):
        fields[place] = number(fields[place])
    return Snapshot(*fields)


# Cached, because nearly all of a thousand workers report the same; parsing takes 3 ms for each list of 500.
_numbers = lru_cache(maxsize=256)(partial(json_map, values=is_whole))
_settings = lru_cache(maxsize=256)(json_map)
