"""The workers: their newest snapshot, what they hold, and whether they live by the database's clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from horsies.store.statements import statement
from horsies.views.tables import tables
from horsies.views.times import aware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import asyncpg

LATE_AFTER_S: Final = 12.0
"""Two snapshots and what one of them may take."""
GONE_AFTER_S: Final = 30.0
"""Six snapshots; horsies.operations judges by the same."""


Sign: TypeAlias = Literal["snapshot", "beat", "claim"]


_UNSEEN: Final[Sign] = "claim"


class Liveness(StrEnum):
    ALIVE = "alive"
    DRAINING = "draining"
    """Alive, and claims nothing more: by order, or because it stops."""
    LATE = "late"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a worker told of itself last; in the order of the statement."""

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
    draining: bool | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker. `running` and `claimed` count the rows that it owns, whatever it says itself."""

    id: str
    liveness: Liveness
    seen_at: datetime
    """Its last sign of life, and by what: the evidence for its liveness."""
    seen_by: Sign
    silent_s: float
    running: int
    claimed: int
    snapshot: Snapshot | None
    """None for one that holds tasks and has told nothing, or so long ago that it was pruned."""
    draining_since: datetime | None
    draining_by: str | None
    draining_reason: str | None


async def worker_rows(
    conn: asyncpg.Connection, *, gone_within: timedelta | None = timedelta(hours=1)
) -> tuple[WorkerRow, ...]:
    """Those that hold something or told something `gone_within` (None: ever), by id."""
    orders: dict[str, tuple[Any, ...]] = {}
    if (await tables(conn)).worker_orders:
        orders = {row[0]: tuple(row[1:]) for row in await conn.fetch(statement("view_orders"))}
    rows = await conn.fetch(statement("view_workers"), gone_within, LATE_AFTER_S)
    return tuple(_row(tuple(map(aware, row)), orders.get(row["worker_id"])) for row in rows)


def _row(columns: tuple[Any, ...], order: tuple[Any, ...] | None) -> WorkerRow:
    now, worker_id, running, claimed, act_at, beat_at, *told = columns
    snapshot = _snapshot(told) if told[0] is not None else None
    signs: dict[Sign, datetime | None] = {"snapshot": told[0], "beat": beat_at, "claim": act_at}
    # Whoever holds a task was seen at its claim; rows made by hand may lack even that time.
    seen_at, seen_by = max([(at, by) for by, at in signs.items() if at is not None], default=(now, _UNSEEN))
    silent_s = (now - seen_at).total_seconds()
    draining = order is not None or (snapshot is not None and bool(snapshot.draining))
    since, by, reason = order or (None, None, None)
    return WorkerRow(
        worker_id,
        _liveness(silent_s, draining=draining),
        seen_at,
        seen_by,
        silent_s,
        running,
        claimed,
        snapshot,
        since,
        by,
        reason,
    )


def _liveness(silent_s: float, *, draining: bool) -> Liveness:
    if silent_s > GONE_AFTER_S:
        return Liveness.GONE
    if silent_s > LATE_AFTER_S:
        return Liveness.LATE
    return Liveness.DRAINING if draining else Liveness.ALIVE


def _snapshot(told: list[Any]) -> Snapshot:
    fields = list(told)
    fields[7] = tuple(fields[7])
    for number in (8, 9, 10):
        fields[number] = json.loads(fields[number]) if fields[number] is not None else {}
    return Snapshot(*fields)
