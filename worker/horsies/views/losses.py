"""Tasks that sweeps and operators recovered from dead workers, until an operator has acknowledged it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.damage import texts
from horsies.store.statements import statement
from horsies.views.reader_session import aware

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    import asyncpg

MOST_IDS: Final = 200
"""Maximum number of tasks listed per worker; a worker with 8 processes has 16 in flight."""
_MAX_ROWS: Final = 1_000
"""Maximum number of newest rows read, each with at most 200 tasks; an open console reads them every two seconds."""


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


async def worker_losses(
    conn: asyncpg.Connection, *, acknowledged_within: timedelta | None = timedelta(hours=1)
) -> Mapping[str, Loss]:
    """Read, by worker, all unacknowledged losses, and those `acknowledged_within` this time (None: all)."""
    rows = await conn.fetch(statement(__name__, "view_losses"), acknowledged_within, _MAX_ROWS, MOST_IDS)
    found = (Loss(*map(aware, row)) for row in rows)
    return {loss.worker_id: replace(loss, ids=texts(loss.ids)) for loss in found}
