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
_FIRST = -(2**63)
_MAX_REPORTED = 20


class Category(StrEnum):
    """Groups of rows, each with its own retention age in RecoveryConfig."""

    HEARTBEATS = "heartbeats"
    WORKER_STATES = "worker_states"
    TERMINAL_RECORDS = "terminal_records"
    OPERATOR_ACTIONS = "operator_actions"


@dataclass(frozen=True, slots=True)
class _Part:
    """One table of a category: `old_<scan>` finds its rows, `prune_<delete>` deletes them."""

    category: Category
    scan: str
    delete: str
    first_id: int | str
    members: str | None = None
    """The table whose rows are deleted with each row and counted too."""
    families: bool = False
    """Whether `prune_lock` prevents other sessions from reopening a row of it."""

    @property
    def tables(self) -> list[str]:
        return [self.delete] if self.members is None else [self.delete, self.members]


_PARTS = (
    _Part(Category.HEARTBEATS, "heartbeats", "heartbeats", _FIRST),
    _Part(Category.WORKER_STATES, "worker_states", "worker_states", _FIRST),
    _Part(Category.WORKER_STATES, "queue_samples", "queue_samples", _FIRST),
    _Part(Category.WORKER_STATES, "schedulers", "schedulers", ""),
    _Part(Category.WORKER_STATES, "sweep_state", "sweep_state", ""),
    # Nodes are deleted with their workflow, and before their tasks: a node never refers to a task that was deleted.
    _Part(Category.TERMINAL_RECORDS, "workflows", "workflows", "", members="workflow_tasks", families=True),
    _Part(Category.TERMINAL_RECORDS, "tasks", "tasks", ""),
    _Part(Category.TERMINAL_RECORDS, "untimed_tasks", "tasks", ""),
    _Part(Category.TERMINAL_RECORDS, "schedule_runs", "schedule_runs", ""),
    # Kept as long as the audit rows that acknowledge them, but deleted first: else they would be reported as new
    # again.
    _Part(Category.OPERATOR_ACTIONS, "worker_losses", "worker_losses", _FIRST),
    _Part(Category.OPERATOR_ACTIONS, "sweeps", "sweeps", _FIRST),
    _Part(Category.OPERATOR_ACTIONS, "outages", "outages", _FIRST),
    # Last: a role without DELETE on the audit trail prunes everything else before the error.
    _Part(Category.OPERATOR_ACTIONS, "operator_actions", "operator_actions", _FIRST),
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
    for part, age_s in _due(ages):
        rows.update(dict.fromkeys(part.tables, 0))

        async def delete(olds: Sequence[_Old], part: _Part = part, age_s: float = age_s) -> dict[str, int]:
            return await _delete(conn, part, age_s, [old.id for old in olds])

        async for page in _pages(conn, part, age_s):
            done = await isolate_bad_rows(_batches(page), delete)
            for counts in done.answers:
                rows.update(counts)
            refused += [RejectedItem(f"{part.delete} {one.item.id}", one.error) for one in done.refused]
            if time.monotonic() > end:
                return Pruned(dict(rows), tuple(refused), complete=False)
    return Pruned(dict(rows), tuple(refused))


async def prunable(conn: asyncpg.Connection, ages: Ages) -> dict[str, int]:
    """Count the rows of each table that `prune` would delete now. Reads only."""
    rows: Counter[str] = Counter()
    for part, age_s in _due(ages):
        rows.update(dict.fromkeys(part.tables, 0))
        async for page in _pages(conn, part, age_s):
            rows[part.delete] += len(page)
            if part.members is not None:
                rows[part.members] += sum(old.rows - 1 for old in page)
    return dict(rows)


async def overdue_by(conn: asyncpg.Connection, ages: Ages) -> dict[Category, float]:
    """Return by how many seconds the oldest prunable row of each category is past its age.

    Reads only, and one row of each table.
    """
    now = await conn.fetchval(statement(__name__, "retention_now"))
    late: dict[Category, float] = {}
    for part, age_s in _due(ages):
        oldest = await conn.fetchrow(statement(__name__, f"old_{part.scan}"), age_s, _LONG_AGO, part.first_id, 1)
        if oldest is not None:
            by_s = (now - oldest["after"]).total_seconds() - age_s
            late[part.category] = max(by_s, late.get(part.category, 0.0))
    return late


async def _delete(conn: asyncpg.Connection, part: _Part, age_s: float, ids: list[int | str]) -> dict[str, int]:
    command = statement(__name__, f"prune_{part.delete}")
    if not part.families:
        return dict(await conn.fetchrow(command, age_s, ids))
    # Two statements: the second must see all changes of a family up to the moment its lock was taken.
    async with conn.transaction(isolation="read_committed"):
        roots = [root for (root,) in await conn.fetch(statement(__name__, "prune_lock"), ids)]
        return dict(await conn.fetchrow(command, age_s, ids, roots))


def _due(ages: Ages) -> Iterator[tuple[_Part, float]]:
    for part in _PARTS:
        age_s = ages.get(part.category)
        if age_s is not None:
            yield part, age_s


async def _pages(conn: asyncpg.Connection, part: _Part, age_s: float) -> AsyncIterator[list[_Old]]:
    """Each page starts after the last row of the page before, so that rows that cannot be deleted appear once."""
    after, after_id = _LONG_AGO, part.first_id
    while found := await conn.fetch(statement(__name__, f"old_{part.scan}"), age_s, after, after_id, MOST_ROWS):
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
