"""What sweeps and operators took from workers that died: their tasks, until an operator has acknowledged it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.times import aware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    import asyncpg

MOST_IDS: Final = 200
"""Of the tasks of one worker, so many are named; a worker with 8 processes holds 16."""
_MOST_ROWS: Final = 1_000
"""The newest; each is of at most 200 tasks. An open console reads them every two seconds."""


@dataclass(frozen=True, slots=True)
class Loss:
    """In the order of the statement. `ids` are the first tasks of all, those that failed before the others."""

    worker_id: str
    taken_at: datetime
    """When the last of them was taken from it."""
    snapshot_at: datetime | None
    """Of the worker, its last one; None where that was pruned."""
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
        """Its last snapshot, which is at most as old as one snapshot of a worker lasts."""
        return self.snapshot_at or self.taken_at

    @property
    def came_back(self) -> bool:
        """It has told of itself since: it was only cut off."""
        return self.snapshot_at is not None and self.snapshot_at > self.taken_at

    def words(self, zone: tzinfo | None = UTC) -> str:
        """`died 21:02Z with 5 running, 10 claimed: 5 failed, 10 returned`; by the local clock where `zone` is None."""
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


async def worker_losses(
    conn: asyncpg.Connection, *, acknowledged_within: timedelta | None = timedelta(hours=1)
) -> Mapping[str, Loss]:
    """By worker: all that is not acknowledged, and what was `acknowledged_within` (None: ever)."""
    rows = await conn.fetch(statement(__name__, "view_losses"), acknowledged_within, _MOST_ROWS, MOST_IDS)
    return {row["worker_id"]: Loss(*map(aware, row)) for row in rows}
