"""The progress that runs report; one row for each run that reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from horsies.lifecycle.claim_token import Token, claim_times, ids
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from horsies.domain.progress import Reading


class ProgressReport(NamedTuple):
    """`rate` per second, `gap_s` the usual time between two changes. `ended`: its outcome has been stored."""

    token: Token
    reading: Reading
    rate: float | None
    gap_s: float | None
    ended: bool


async def store_progress(conn: asyncpg.Connection, worker_id: str, reports: Sequence[ProgressReport]) -> None:
    """Reports of runs that this worker has lost change nothing."""
    ordered = sorted(reports, key=lambda report: (report.token.task_id, report.token.claimed_at))
    tokens = [report.token for report in ordered]
    await conn.execute(
        statement(__name__, "store_progress"),
        worker_id,
        ids(tokens),
        claim_times(tokens),
        [report.ended for report in ordered],
        [report.reading.done for report in ordered],
        [report.reading.total for report in ordered],
        [report.reading.unit for report in ordered],
        [report.rate for report in ordered],
        [report.gap_s for report in ordered],
    )
