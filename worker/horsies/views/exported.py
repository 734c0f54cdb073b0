"""The figures that the exporter of the cluster publishes: those of `horsies status`, and counts for alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.store.statements import statement
from horsies.views.cluster import cluster_status
from horsies.views.counts import Count
from horsies.views.reader_session import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from horsies.views.cluster import ClusterStatus

_MAX_WORKFLOWS: Final = 20_000
OVERDUE_AFTER_S: Final = 60.0
"""Seconds after which a slot is overdue: schedulers check every second."""
_SCHEDULER_GONE_AFTER_S: Final = 30.0
"""Three of the intervals at which a scheduler renews its row."""


@dataclass(frozen=True, slots=True)
class ScheduleTotals:
    """Totals of the schedules, in the column order of the statement. A schedule without a scheduler is not overdue."""

    schedules: int
    paused: int
    overdue: int
    overdue_s: float
    """Seconds by which the most overdue schedule is late."""
    schedulers: int
    """Number of live workers."""


@dataclass(frozen=True, slots=True)
class Exported:
    status: ClusterStatus
    workflows: Mapping[str, Count]
    """Number of workflows that have not ended, by status."""
    sweeps: Mapping[str, float]
    """Seconds since a sweep of each rule began; empty in a database of upstream."""
    schedules: ScheduleTotals | None
    """Totals of schedules; None without our tables of schedules."""


async def exported(conn: asyncpg.Connection) -> Exported:
    """Read the figures of the exporter, in a session with READER_SETTINGS."""
    sweeps, schedules = await conn.fetchrow(statement(__name__, "view_exported_tables"))
    rows = await conn.fetch(statement(__name__, "view_live_workflows"), _MAX_WORKFLOWS)
    partly = sum(row["number"] for row in rows) >= _MAX_WORKFLOWS
    ages = await conn.fetch(statement(__name__, "view_sweep_ages")) if sweeps else []
    return Exported(
        status=await cluster_status(conn),
        workflows={row["status"]: Count(row["number"], partly) for row in rows},
        sweeps={row["rule"]: max(decoded(row["age_s"]), 0.0) for row in ages},
        schedules=await _schedules(conn) if schedules else None,
    )


async def _schedules(conn: asyncpg.Connection) -> ScheduleTotals:
    row = await conn.fetchrow(statement(__name__, "view_schedule_totals"), OVERDUE_AFTER_S, _SCHEDULER_GONE_AFTER_S)
    return ScheduleTotals(*map(decoded, row))
