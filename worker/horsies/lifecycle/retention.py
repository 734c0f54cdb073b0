"""What is over and old is deleted: in small transactions, each category by itself."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from horsies.config.recovery import RecoveryConfig
from horsies.store.isolate_bad_rows import Refused, isolate_bad_rows
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    import asyncpg

MOST_ROWS = 5_000
"""In one transaction: longer ones hold back vacuum, and locks that somebody may wait for."""

_HOUR_S = 3_600.0
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
_TOLD = 20


class Category(StrEnum):
    """What can be kept for different times, as RecoveryConfig has it."""

    HEARTBEATS = "heartbeats"
    WORKER_STATES = "worker_states"
    TERMINAL_RECORDS = "terminal_records"
    OPERATOR_ACTIONS = "operator_actions"


@dataclass(frozen=True, slots=True)
class _Part:
    """One table of a category: `old_<scan>.sql` finds, `prune_<delete>.sql` deletes."""

    category: Category
    scan: str
    delete: str
    first_id: int | str
    members: str | None = None
    """What goes with each row and is counted too."""
    families: bool = False
    """Whether `prune_lock.sql` holds off whoever would open a row of it again."""

    @property
    def tables(self) -> list[str]:
        return [self.delete] if self.members is None else [self.delete, self.members]


_PARTS = (
    _Part(Category.HEARTBEATS, "heartbeats", "heartbeats", 0),
    _Part(Category.WORKER_STATES, "worker_states", "worker_states", 0),
    _Part(Category.WORKER_STATES, "sweep_state", "sweep_state", ""),
    # Nodes go with their workflow, and before their tasks: a node never points to a task that is not there.
    _Part(Category.TERMINAL_RECORDS, "workflows", "workflows", "", members="workflow_tasks", families=True),
    _Part(Category.TERMINAL_RECORDS, "tasks", "tasks", ""),
    _Part(Category.TERMINAL_RECORDS, "untimed_tasks", "tasks", ""),
    # As old as the trace that acknowledges them, and before it: else they would be told as new once that is gone.
    _Part(Category.OPERATOR_ACTIONS, "worker_losses", "worker_losses", 0),
    # Last: a role that may not delete from the audit trail has pruned everything else before it is refused.
    _Part(Category.OPERATOR_ACTIONS, "operator_actions", "operator_actions", 0),
)

Ages = dict[Category, float | None]
"""How old in seconds; None keeps all."""


@dataclass(frozen=True, slots=True)
class _Old:
    """A row that may go, and how many rows that makes."""

    id: int | str
    rows: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows of each table went. `refused`: ids that the database would not delete, and why."""

    rows: Mapping[str, int]
    refused: tuple[Refused[str], ...] = ()
    complete: bool = True

    def report(self) -> dict[str, Any]:
        """For horsies_sweep_state; of many refused rows the first ones."""
        return {
            **self.rows,
            "complete": self.complete,
            "refused": len(self.refused),
            "refused_rows": [{"id": one.item, "error": one.error} for one in self.refused[:_TOLD]],
        }


def ages_of(config: RecoveryConfig) -> Ages:
    """Heartbeats stay as long as somebody may judge by them: without its last one a run would look dead too early."""
    judged_s = max(config.running_stale_threshold_ms, config.claimed_stale_threshold_ms) / 1000
    heartbeats = _seconds(config.heartbeat_retention_hours)
    return {
        Category.HEARTBEATS: None if heartbeats is None else max(heartbeats, judged_s),
        Category.WORKER_STATES: _seconds(config.worker_state_retention_hours),
        Category.TERMINAL_RECORDS: _seconds(config.terminal_record_retention_hours),
        Category.OPERATOR_ACTIONS: _seconds(config.operator_action_retention_hours),
    }


async def ages_in_use(conn: asyncpg.Connection) -> tuple[Ages, str | None]:
    """As the newest worker has them, and which one that is; the defaults and None where no worker tells any.

    Not checked: upstream allows other ranges. An age that a worker does not tell is the default.
    """
    newest = await conn.fetchrow(statement(__name__, "retention_settings"))
    told = json.loads(newest["recovery_config"]) if newest else None
    if not isinstance(told, dict):
        return ages_of(RecoveryConfig()), None
    usable = {name: value for name, value in told.items() if _fits(name, value)}
    return ages_of(RecoveryConfig.model_construct(**usable)), newest["worker_id"]


def _fits(name: str, value: object) -> bool:
    """Of an age, None says that it is for ever."""
    if name not in RecoveryConfig.model_fields:
        return False
    return type(value) is int or (value is None and name.endswith("_retention_hours"))


async def prune(conn: asyncpg.Connection, ages: Ages, *, budget_s: float = math.inf) -> Pruned:
    """Delete what is older. After `budget_s` no further page is begun, and the rest is left for next time."""
    end = time.monotonic() + budget_s
    rows: Counter[str] = Counter()
    refused: list[Refused[str]] = []
    for part, age_s in _due(ages):
        rows.update(dict.fromkeys(part.tables, 0))

        async def delete(olds: Sequence[_Old], part: _Part = part, age_s: float = age_s) -> dict[str, int]:
            return await _delete(conn, part, age_s, [old.id for old in olds])

        async for page in _pages(conn, part, age_s):
            done = await isolate_bad_rows(_batches(page), delete)
            for counts in done.answers:
                rows.update(counts)
            refused += [Refused(f"{part.delete} {one.item.id}", one.error) for one in done.refused]
            if time.monotonic() > end:
                return Pruned(dict(rows), tuple(refused), complete=False)
    return Pruned(dict(rows), tuple(refused))


async def prunable(conn: asyncpg.Connection, ages: Ages) -> dict[str, int]:
    """How many rows of each table `prune` would delete now. Only reads."""
    rows: Counter[str] = Counter()
    for part, age_s in _due(ages):
        rows.update(dict.fromkeys(part.tables, 0))
        async for page in _pages(conn, part, age_s):
            rows[part.delete] += len(page)
            if part.members is not None:
                rows[part.members] += sum(old.rows - 1 for old in page)
    return dict(rows)


async def _delete(conn: asyncpg.Connection, part: _Part, age_s: float, ids: list[int | str]) -> dict[str, int]:
    command = statement(__name__, f"prune_{part.delete}")
    if not part.families:
        return dict(await conn.fetchrow(command, age_s, ids))
    # Two statements: the second must see what became of a family until its lock was had.
    async with conn.transaction(isolation="read_committed"):
        roots = [root for (root,) in await conn.fetch(statement(__name__, "prune_lock"), ids)]
        return dict(await conn.fetchrow(command, age_s, ids, roots))


def _due(ages: Ages) -> Iterator[tuple[_Part, float]]:
    for part in _PARTS:
        age_s = ages.get(part.category)
        if age_s is not None:
            yield part, age_s


async def _pages(conn: asyncpg.Connection, part: _Part, age_s: float) -> AsyncIterator[list[_Old]]:
    """Each page begins after the last row of the one before, deleted or not: what cannot be deleted is met once."""
    after, after_id = _LONG_AGO, part.first_id
    while found := await conn.fetch(statement(__name__, f"old_{part.scan}"), age_s, after, after_id, MOST_ROWS):
        _, after, after_id, _ = found[-1]
        yield [_Old(row_id, rows) for row_id, _, _, rows in found]


def _batches(page: Sequence[_Old]) -> Iterator[Sequence[_Old]]:
    """As many as make MOST_ROWS together, at least one."""
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
