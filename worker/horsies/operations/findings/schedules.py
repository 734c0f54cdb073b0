"""Findings about schedules: a run that is overdue, and no scheduler that could send any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies.operations.findings import (
    MOST_IDS,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    remedies,
)
from horsies.operations.formatting import clock, counted, span
from horsies.store.statements import statement
from horsies.views.schedules import SEEN_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.operations.cluster import Cluster

NO_SCHEDULER = FindingKind("no scheduler runs", 45, alert="no scheduler runs, schedules planned: {count}")
SCHEDULE_OVERDUE = FindingKind(
    "schedule overdue", 55, alert="schedule {name} is overdue", alerts="{findings} schedules are overdue"
)

_START = "Start one: `horsies scheduler shop.tasks:app`, or `horsies worker shop.tasks:app --with-scheduler`."


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    late = await conn.fetch(statement(__name__, "diagnose_schedules_overdue"), SEEN_WITHIN_S, MOST_IDS)
    known = await conn.fetchrow(statement(__name__, "diagnose_schedulers"), SEEN_WITHIN_S)
    if not known["planned"]:
        return []
    if not known["running"]:
        return [_no_scheduler(known, late, cluster.now)]
    return [_overdue(row, cluster.now) for row in late]


def _no_scheduler(known: Mapping[str, Any], late: Sequence[Mapping[str, Any]], now: datetime) -> Finding:
    """In place of a finding for each of its schedules."""
    seen_at = known["seen_at"]
    seen = "none was seen within a day" if seen_at is None else f"the last was seen {_ago(seen_at, now)}"
    overdue = f"{counted(len(late), 'run')} overdue" if late else f"next run {clock(known['next_run_at'])}"
    waits = PredictedAction("nothing: no run is sent until one runs", Severity.NEEDS_ACTION if late else Severity.NOTE)
    return Finding(
        kind=NO_SCHEDULER,
        target_kind="schedule",
        name="for any schedule",
        ids=(),
        count=known["planned"],
        since=late[0]["next_run_at"] if late else seen_at,
        evidence=f"{counted(known['planned'], 'schedule')} planned, {overdue}; {seen}",
        prediction=waits,
        remedies=(),
        why=(_START, "Of the runs that it missed it sends the oldest, or with `catch_up_missed` all of them."),
        at_least=len(late) >= MOST_IDS,
    )


def _overdue(row: Mapping[str, Any], now: datetime) -> Finding:
    name = row["schedule_name"]
    last = "never ran" if row["last_run_at"] is None else f"last run {_ago(row['last_run_at'], now)}"
    served = ", ".join(row["schedulers"]) or "no scheduler that runs"
    return Finding(
        kind=SCHEDULE_OVERDUE,
        target_kind="schedule",
        name=name,
        ids=(name,),
        count=1,
        since=row["next_run_at"],
        evidence=f"its run was due {_ago(row['next_run_at'], now)}, {last}; served by {served}",
        prediction=PredictedAction("nothing, unless a scheduler sends it", Severity.NEEDS_ACTION),
        remedies=remedies("schedule", (name,), "run-now", "pause"),
        why=tuple(_why(row)),
    )


def _why(row: Mapping[str, Any]) -> Iterator[str]:
    if row["schedulers"]:
        yield "Its scheduler's log says why: what cannot be sent is logged there as `schedule not sent`."
    else:
        yield "The schedulers that run belong to other applications, or to a release that does not have it."
        yield _START
        yield "If no application has it any more, a pause ends this finding."


def _ago(moment: datetime, now: datetime) -> str:
    return f"{span((now - moment).total_seconds())} ago"


SEARCH = Search((NO_SCHEDULER, SCHEDULE_OVERDUE), _find, needs="horsies_schedules")
