"""The marks on charts: outages, in which nothing is known; new versions; operations of operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from horsies.query.language import Term
from horsies.query.parser import ActivityFilter
from horsies.query.values import Choice, Moment
from horsies.store.statements import statement
from horsies.views.activity import changes
from horsies.views.reader_session import tables

if TYPE_CHECKING:
    import asyncpg

    from horsies.views.activity import Change
    from horsies.views.series import Buckets


@dataclass(frozen=True, slots=True)
class ChartMarks:
    """Numbers of buckets. In `dark` ones no heartbeat could be stored for at least half of their time."""

    dark: tuple[int, ...] = ()
    outages: tuple[int, ...] = ()
    deployed: tuple[int, ...] = ()
    operated: tuple[int, ...] = ()


async def chart_marks(conn: asyncpg.Connection, buckets: Buckets) -> ChartMarks:
    """Read which buckets have an outage, a new version, or an operation."""
    kinds = Term("kind", (Choice("worker"), Choice("database")))
    since = Term("since", (Moment("", at=buckets.first),))
    found = (await changes(conn, ActivityFilter((kinds, since)))).rows
    gaps = [change for change in found if change.what == "outage"]
    deployed = {buckets.index(change.at) for change in found if change.what == "deployed"}
    operated = []
    if (await tables(conn)).actions:
        rows = await conn.fetch(statement(__name__, "mark_operations"), *buckets.parameters)
        operated = [row["number"] for row in rows]
    return ChartMarks(
        tuple(sorted(_covered(gaps, buckets, buckets.step / 2))),
        tuple(sorted(_covered(gaps, buckets, timedelta()))),
        tuple(sorted(number for number in deployed if number is not None)),
        tuple(operated),
    )


def _covered(gaps: list[Change], buckets: Buckets, least: timedelta) -> set[int]:
    """Return the buckets of which at least this share lies in a gap."""
    return {
        number
        for number, start in enumerate(buckets.starts)
        for gap in gaps
        if min(gap.at, start + buckets.step) - max(gap.began_at, start) >= least
        and gap.at >= start
        and gap.began_at < start + buckets.step
    }
