"""The state of the cluster, for `horsies status` and the console's first screen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.counts import Count
from horsies.views.queues import queue_rows
from horsies.views.reader_session import aware, tables
from horsies.views.workers import worker_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import asyncpg

    from horsies.views.queues import QueueRow
    from horsies.views.workers import WorkerRow


_WINDOW: Final = timedelta(minutes=5)
_MAX_ENDED: Final = 20_000
_MAX_INTERRUPTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """`completed`, `failed` and `other` (cancelled, expired) are tasks that ended within the window before now.

    `counted_since`: tasks that ended earlier are not counted; None if the whole window is counted.
    """

    now: datetime
    workers: tuple[WorkerRow, ...]
    queues: tuple[QueueRow, ...]
    window: timedelta
    completed: Count
    failed: Count
    other: Count
    counted_since: datetime | None
    interrupted: Count
    """Number of tasks that were stopped at a shutdown and need a decision."""
    in_table: int | None
    """Estimated number of tasks; None if the table was never vacuumed or analyzed."""


async def cluster_status(conn: asyncpg.Connection) -> ClusterStatus:
    lately = await conn.fetch(statement(__name__, "view_ended_lately"), _WINDOW, _MAX_ENDED)
    ended = {row["status"]: row["number"] for row in lately}
    partly = sum(ended.values()) == _MAX_ENDED
    interrupted = await conn.fetchval(statement(__name__, "view_interrupted_count"), _MAX_INTERRUPTED)
    size = await conn.fetchval(statement("horsies.views.counts", "view_table_size"))
    return ClusterStatus(
        now=(await tables(conn)).now,
        workers=await worker_rows(conn),
        queues=await queue_rows(conn),
        window=_WINDOW,
        completed=Count(ended.get("COMPLETED", 0), partly),
        failed=Count(ended.get("FAILED", 0), partly),
        other=Count(ended.get("CANCELLED", 0) + ended.get("EXPIRED", 0), partly),
        counted_since=aware(min(row["since"] for row in lately)) if partly else None,
        interrupted=Count(interrupted, interrupted == _MAX_INTERRUPTED),
        in_table=size if size >= 0 else None,
    )


def total(counts: Iterable[Count]) -> Count:
    counts = tuple(counts)
    return Count(sum(count.number for count in counts), any(count.at_least for count in counts))


def waiting(queues: Iterable[QueueRow]) -> Count:
    """Due and not begun."""
    return total(Count(row.due.number + row.claimed, row.due.at_least) for row in queues)


def busy_share(workers: Iterable[WorkerRow]) -> float | None:
    """Return the share of busy processes; None if no live worker reports its processes."""
    living = [row for row in workers if row.lives]
    places = sum(row.snapshot.processes for row in living if row.snapshot is not None)
    return sum(row.busy or 0 for row in living) / places if places else None
