"""Findings about schedules: an overdue run, a lost scheduler, and no running scheduler at all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from horsies.domain.quantities import clock, counted, span
from horsies.findings import MOST_IDS, Finding, FindingKind, PredictedAction, Search, Severity, remedies
from horsies.store.statements import statement
from horsies.views.schedules import SEEN_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    import asyncpg

    from horsies.findings.cluster import Cluster

NO_SCHEDULER = FindingKind("no scheduler runs", 45, alert="no scheduler runs, schedules planned: {count}")
SCHEDULER_LOST = FindingKind(
    "scheduler lost",
    47,
    alert="scheduler {name} is lost, schedules without one: {count}",
    alerts="{findings} schedulers are lost, schedules without one: {count}",
)
SCHEDULE_OVERDUE = FindingKind(
    "schedule overdue", 55, alert="schedule {name} is overdue", alerts="{findings} schedules are overdue"
)

LOST_AFTER_S = 13.0
"""Seconds of silence of a scheduler that reports no limit: earlier releases renew their rows every 10 s or more."""
_NOTED_S = 600.0
"""How long a lost scheduler is reported if another scheduler serves all of its schedules."""

_START = "Start one: `horsies scheduler shop.tasks:app`, or `horsies worker shop.tasks:app --with-scheduler`."


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    if "horsies_schedules" not in cluster.tables:
        return []
    late = await conn.fetch(statement(__name__, "diagnose_schedules_overdue"), SEEN_WITHIN_S, MOST_IDS)
    known = await conn.fetchrow(statement(__name__, "diagnose_schedulers"), SEEN_WITHIN_S)
    if not known["planned"]:
        return []
    if not known["running"]:
        return [_no_scheduler(known, late, cluster.now)]
    lost = await conn.fetch(statement(__name__, "diagnose_schedulers_lost"), LOST_AFTER_S, MOST_IDS)
    since = cluster.now - timedelta(seconds=_NOTED_S)
    noted = [_lost(row, cluster.now) for row in lost if row["unserved"] or row["seen_at"] > since]
    return [*(_overdue(row, cluster.now) for row in late), *noted]


def _lost(row: Mapping[str, Any], now: datetime) -> Finding:
    """Return the finding for a scheduler that did not stop cleanly: a clean stop deletes its row."""
    unserved = tuple(row["unserved"])
    serves = "another scheduler has all of its schedules"
    if unserved:
        serves = f"no other scheduler has {counted(len(unserved), 'of its schedules', 'of its schedules')}"
    return Finding(
        kind=SCHEDULER_LOST,
        target_kind="schedule",
        name=f"{row['hostname']}:{row['pid']}",
        ids=unserved,
        count=len(unserved),
        since=row["seen_at"],
        evidence=f"no sign of life from pid {row['pid']} on {row['hostname']} for "
        f"{span((now - row['seen_at']).total_seconds())}; {serves}",
        prediction=PredictedAction("nothing: no run is sent until a scheduler has them", Severity.NEEDS_ACTION)
        if unserved
        else PredictedAction("nothing more: the others send its runs", Severity.NOTE),
        why=(
            "It fell silent without a clean stop: it was killed, crashed, hangs, or lost the database.",
            *((_START,) if unserved else ()),
        ),
    )


def _no_scheduler(known: Mapping[str, Any], late: Sequence[Mapping[str, Any]], now: datetime) -> Finding:
    """Return one finding in place of one for each of its schedules."""
    seen_at = known["seen_at"]
    seen = "none was seen within a day"
    if seen_at is not None:
        seen = f"the last, pid {known['pid']} on {known['hostname']}, was seen {_ago(seen_at, now)} and did not stop"
    overdue = f"{counted(len(late), 'run')} overdue" if late else f"next run {clock(known['next_run_at'])}"
    # A stopped scheduler has no row: this one was lost.
    severity = Severity.NEEDS_ACTION if late or seen_at is not None else Severity.NOTE
    waits = PredictedAction("nothing: no run is sent until a scheduler runs", severity)
    return Finding(
        kind=NO_SCHEDULER,
        target_kind="schedule",
        name="for any schedule",
        count=known["planned"],
        since=late[0]["next_run_at"] if late else seen_at,
        evidence=f"{counted(known['planned'], 'schedule')} planned, {overdue}; {seen}",
        prediction=waits,
        why=(_START, "It sends the oldest missed run, or all of them with `catch_up_missed`."),
        at_least=len(late) >= MOST_IDS,
    )


def _overdue(row: Mapping[str, Any], now: datetime) -> Finding:
    name = row["schedule_name"]
    last = "never ran" if row["last_run_at"] is None else f"last run {_ago(row['last_run_at'], now)}"
    served = ", ".join(row["schedulers"]) or "no running scheduler"
    return Finding(
        kind=SCHEDULE_OVERDUE,
        target_kind="schedule",
        name=name,
        ids=(name,),
        since=row["next_run_at"],
        evidence=f"its run was due {_ago(row['next_run_at'], now)}, {last}; served by {served}",
        prediction=PredictedAction("nothing, unless a scheduler sends it", Severity.NEEDS_ACTION),
        remedies=remedies("schedule", (name,), "run-now", "pause"),
        why=tuple(_why(row)),
    )


def _why(row: Mapping[str, Any]) -> Iterator[str]:
    if row["schedulers"]:
        yield "Its scheduler's log gives the reason in a line `schedule not sent`."
    else:
        yield "The running schedulers belong to other applications, or to a release without this schedule."
        yield _START
        yield "If no application has it any more, pause it to end this finding."


def _ago(moment: datetime, now: datetime) -> str:
    return f"{span((now - moment).total_seconds())} ago"


SEARCH = Search((NO_SCHEDULER, SCHEDULER_LOST, SCHEDULE_OVERDUE), _find)
