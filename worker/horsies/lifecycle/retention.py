"""Delete old rows of ended work: in small transactions, each category separately."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from horsies.config.recovery import RecoveryConfig
from horsies.domain.damage import DamagedTime
from horsies.store.isolate_bad_rows import RejectedItem, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    import asyncpg

MOST_ROWS = 5_000
"""Rows deleted in one transaction: longer ones delay vacuum and sessions that wait for their locks."""

_HOUR_S = 3_600.0
_LONG_AGO = DamagedTime.of(-(2**63))  # -infinity
_MAX_REPORTED = 20


class Category(StrEnum):
    """Groups of rows, each with its own retention age in RecoveryConfig."""

    HEARTBEATS = "heartbeats"
    WORKER_STATES = "worker_states"
    TERMINAL_RECORDS = "terminal_records"
    OPERATOR_ACTIONS = "operator_actions"


@dataclass(frozen=True, slots=True)
class PrunedTable:
    """A table of a category: the statement that finds its rows, and the one that deletes them."""

    category: Category
    name: str
    time: str = ""
    """The column from which the age of a row counts, for the statements of most tables."""
    key: str = "id"
    first_id: int | str = -(2**63)
    scan: str = "old_rows"
    delete: str = "prune_rows"
    members: str | None = None
    """The table whose rows are deleted with each row and counted too."""
    families: bool = False
    """True if `prune_lock` prevents other sessions from reopening a row of it."""

    @property
    def counted(self) -> list[str]:
        return [self.name] if self.members is None else [self.name, self.members]

    def statement(self, name: str) -> str:
        return statement(__name__, name, table=f"horsies_{self.name}", time=self.time, key=self.key)


PRUNED_TABLES = (
    PrunedTable(Category.HEARTBEATS, "heartbeats", "sent_at", scan="old_heartbeats"),
    PrunedTable(Category.WORKER_STATES, "worker_states", "snapshot_at"),
    PrunedTable(Category.WORKER_STATES, "queue_samples", scan="old_queue_samples", delete="prune_queue_samples"),
    PrunedTable(Category.WORKER_STATES, "schedulers", "seen_at", key="scheduler_id", first_id=""),
    PrunedTable(Category.WORKER_STATES, "sweep_state", "ran_at", key="sweep", first_id="", scan="old_sweep_state"),
    # Nodes are deleted with their workflow, and before their tasks: a node never refers to a task that was deleted.
    PrunedTable(
        Category.TERMINAL_RECORDS,
        "workflows",
        first_id="",
        scan="old_workflows",
        delete="prune_workflows",
        members="workflow_tasks",
        families=True,
    ),
    PrunedTable(Category.TERMINAL_RECORDS, "tasks", first_id="", scan="old_tasks", delete="prune_tasks"),
    PrunedTable(Category.TERMINAL_RECORDS, "tasks", first_id="", scan="old_untimed_tasks", delete="prune_tasks"),
    PrunedTable(
        Category.TERMINAL_RECORDS,
        "schedule_runs",
        first_id="",
        scan="old_schedule_runs",
        delete="prune_schedule_runs",
    ),
    # Kept as long as the audit rows that acknowledge them, but deleted first: else they would be reported as new
    # again.
    PrunedTable(Category.OPERATOR_ACTIONS, "worker_losses", "taken_at"),
    PrunedTable(Category.OPERATOR_ACTIONS, "sweeps", "swept_at"),
    PrunedTable(Category.OPERATOR_ACTIONS, "outages", "ended_at"),
    # Last: a role without DELETE on the audit log prunes everything else before the error.
    PrunedTable(Category.OPERATOR_ACTIONS, "operator_actions", "acted_at", delete="prune_operator_actions"),
)

Ages = dict[Category, float | None]
"""The retention age in seconds; None keeps all rows."""


@dataclass(frozen=True, slots=True)
class _Old:
    """A row that may be deleted, and the number of rows deleted with it, including this one."""

    id: int | str
    rows: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """The number of deleted rows of each table. `refused`: ids that the database would not delete, and why."""

    rows: Mapping[str, int]
    refused: tuple[RejectedItem[str], ...] = ()
    complete: bool = True

    def report(self) -> dict[str, Any]:
        """Return the report for horsies_sweep_state; it lists only the first of many refused rows."""
        return {
            **self.rows,
            "complete": self.complete,
            "refused": len(self.refused),
            "refused_rows": [{"id": one.item, "error": one.error} for one in self.refused[:_MAX_REPORTED]],
        }


def ages_of(config: RecoveryConfig) -> Ages:
    """Return the retention age of heartbeats: sweeps need them, and a run without its last beat counts as dead."""
    judged_s = max(config.running_stale_threshold_ms, config.claimed_stale_threshold_ms) / 1000
    heartbeats = _seconds(config.heartbeat_retention_hours)
    return {
        Category.HEARTBEATS: None if heartbeats is None else max(heartbeats, judged_s),
        Category.WORKER_STATES: _seconds(config.worker_state_retention_hours),
        Category.TERMINAL_RECORDS: _seconds(config.terminal_record_retention_hours),
        Category.OPERATOR_ACTIONS: _seconds(config.operator_action_retention_hours),
    }


async def ages_in_use(conn: asyncpg.Connection) -> tuple[Ages, str | None]:
    """Read the ages that the newest worker reports, and its id; the defaults and None if no worker reports any."""
    newest = await conn.fetchrow(statement(__name__, "retention_settings"))
    reported = RecoveryConfig.reported(newest["recovery_config"]) if newest else None
    return (ages_of(RecoveryConfig()), None) if reported is None else (ages_of(reported), newest["worker_id"])


async def prune(conn: asyncpg.Connection, ages: Ages, *, budget_s: float = math.inf) -> Pruned:
    """Delete rows that are older. After `budget_s` start no further page; the next run deletes the remaining rows."""
    end = time.monotonic() + budget_s
    rows: Counter[str] = Counter()
    refused: list[RejectedItem[str]] = []
    for table, age_s in _due(ages):
        rows.update(dict.fromkeys(table.counted, 0))

        async def delete(olds: Sequence[_Old], table: PrunedTable = table, age_s: float = age_s) -> dict[str, int]:
            return await _delete(conn, table, age_s, [old.id for old in olds])

        async for page in _pages(conn, table, age_s):
            done = await isolate_bad_rows(_batches(page), delete)
            for counts in done.answers:
                rows.update(counts)
            refused += [RejectedItem(f"{table.name} {one.item.id}", one.error) for one in done.refused]
            if time.monotonic() > end:
                return Pruned(dict(rows), tuple(refused), complete=False)
    return Pruned(dict(rows), tuple(refused))


async def prunable(conn: asyncpg.Connection, ages: Ages) -> dict[str, int]:
    """Count the rows of each table that `prune` would delete now. Reads only."""
    rows: Counter[str] = Counter()
    for table, age_s in _due(ages):
        rows.update(dict.fromkeys(table.counted, 0))
        async for page in _pages(conn, table, age_s):
            rows[table.name] += len(page)
            if table.members is not None:
                rows[table.members] += sum(old.rows - 1 for old in page)
    return dict(rows)


async def overdue_by(conn: asyncpg.Connection, ages: Ages) -> dict[Category, float]:
    """Return by how many seconds the oldest prunable row of each category is past its age.

    Reads only, and one row of each table.
    """
    now = await conn.fetchval(statement(__name__, "retention_now"))
    late: dict[Category, float] = {}
    for table, age_s in _due(ages):
        oldest = await conn.fetchrow(table.statement(table.scan), age_s, _LONG_AGO, table.first_id, 1)
        if oldest is not None:
            by_s = (now - oldest["after"]).total_seconds() - age_s
            late[table.category] = max(by_s, late.get(table.category, 0.0))
    return late


async def _delete(conn: asyncpg.Connection, table: PrunedTable, age_s: float, ids: list[int | str]) -> dict[str, int]:
    """Delete in one transaction; return the number of deleted rows of each table."""
    command = table.statement(table.delete)
    if not table.families:
        return dict(zip(table.counted, await conn.fetchrow(command, age_s, ids), strict=True))
    # Two statements: the second must see all changes of a family up to the moment its lock was taken.
    async with conn.transaction(isolation="read_committed"):
        roots = [root for (root,) in await conn.fetch(statement(__name__, "prune_lock"), ids)]
        return dict(zip(table.counted, await conn.fetchrow(command, age_s, ids, roots), strict=True))


def _due(ages: Ages) -> Iterator[tuple[PrunedTable, float]]:
    for table in PRUNED_TABLES:
        age_s = ages.get(table.category)
        if age_s is not None:
            yield table, age_s


async def _pages(conn: asyncpg.Connection, table: PrunedTable, age_s: float) -> AsyncIterator[list[_Old]]:
    """Each page starts after the last row of the page before, so that rows that cannot be deleted appear once."""
    after, after_id = _LONG_AGO, table.first_id
    while found := await conn.fetch(table.statement(table.scan), age_s, after, after_id, MOST_ROWS):
        _, after, after_id, _ = found[-1]
        yield [_Old(row_id, rows) for row_id, _, _, rows in found]


def _batches(page: Sequence[_Old]) -> Iterator[Sequence[_Old]]:
    """Yield batches with MOST_ROWS rows together, at least one."""
    first = total = 0
    for number, old in enumerate(page):
        if total + old.rows > MOST_ROWS and number > first:
            yield page[first:number]
            first, total = number, 0
        total += old.rows
    if page:
        yield page[first:]


def _seconds(hours: int | None) -> float | None:
    return None if hours is None else hours * _HOUR_S
