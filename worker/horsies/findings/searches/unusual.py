"""Running tasks far beyond the usual duration of their name, and tasks that wait behind them in a child or a worker.

Such tasks still give signs of life; in_flight.py finds tasks without one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted, span
from horsies.findings import MOST_IDS, RUNS_AGAIN, Finding, FindingKind, PredictedAction, Search, Severity, about_rows
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.store.statements import statement
from horsies.views.statistics import usual_durations
from horsies.views.workers import drain_orders, name_of, place_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from typing import Any

    import asyncpg

    from horsies.findings.cluster import Cluster
    from horsies.views import Usual

RUNS_LONG = FindingKind(
    "runs long", 230, state="RUNNING", tasks="status:running", by_id=True, alert_severity=Severity.HANDLED
)
BEHIND_RUN = FindingKind(
    "behind another run",
    235,
    state="RUNNING",
    tasks="status:running",
    by_id=True,
    alert="{count} {name} may wait{on} for another run",
)
BEHIND_BUSY = FindingKind(
    "behind a busy worker",
    240,
    state="CLAIMED",
    tasks="status:claimed",
    by_id=True,
    alert="{count} {name} claimed{on}, which is busy while another idles",
    alert_severity=Severity.HANDLED,
)

FAR: Final = 3.0
"""Multiple of the name's 95th percentile from which a run is unusual."""
LEAST_RUNS: Final = 20
"""Completed runs of a name in the last day below which an absolute time decides."""
LEAST_S: Final = 30.0
"""Seconds below which a run is never unusual, however short the others are."""
WANTED_S: Final = 300.0
"""Seconds after which a run without a usual duration is long, if others wait for its place. The overview warns of a
due task after the same time, so the cause is shown no later than its effect."""
LONG_S: Final = 1_800.0
"""Seconds after which such a run is long if nothing waits for its place: a nightly job may take half an hour."""
WAITS_S: Final = 15.0
"""Seconds that a claim waits while another worker has room: three snapshots."""
BEATS_MISSED: Final = 3
"""Missed beats after which a run is no longer reported as only slow."""
_MAX_NAMES: Final = 40
"""Maximum number of names whose usual durations are read: at most 20,000 tasks, 50 ms."""
_ID_END: Final = 8
"""Number of characters shown of an id, from its end; they are enough to find the task."""


@dataclass(frozen=True, slots=True)
class _Limit:
    """The seconds after which a run of this name is long: in general, and if others wait for its place."""

    known: Usual | None
    after_s: float
    wanted_after_s: float

    @classmethod
    def of(cls, known: Usual | None) -> _Limit:
        far_s = max(known.p95_s * FAR, LEAST_S) if known is not None else LEAST_S
        if known is not None and known.runs >= LEAST_RUNS:
            return cls(known, far_s, far_s)
        return cls(None, max(far_s, LONG_S), max(far_s, WANTED_S))


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    return [*await _long_runs(conn, cluster), *await _behind_busy(conn, cluster)]


async def _long_runs(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    running = await conn.fetch(statement(__name__, "diagnose_names_that_run"), LEAST_S, _MAX_NAMES)
    usual = await usual_durations(conn, [row["task_name"] for row in running])
    limits = {row["task_name"]: _Limit.of(usual.get(row["task_name"])) for row in running}
    far = [row for row in running if row["runs_s"] > limits[row["task_name"]].wanted_after_s]
    if not far:
        return []
    workers: list[str] = []
    queues: list[str] = []
    if any(limits[row["task_name"]].known is None for row in far):
        workers, queues = await _wanted_places(conn, cluster)
    rows = await conn.fetch(
        statement(__name__, "diagnose_long_runs"),
        [*limits],
        [limit.after_s for limit in limits.values()],
        [limit.wanted_after_s for limit in limits.values()],
        workers,
        queues,
        WAITS_S,
        BEATS_MISSED * cluster.settings.runner_heartbeat_interval_ms,
        MOST_IDS,
    )
    long = [_long(row, limits[row["task_name"]].known, cluster) for row in rows if not row["behind"]]
    blamed = {task_id for finding in long for task_id in finding.ids}
    return long + [_behind(row, blamed, cluster) for row in rows if row["behind"]]


async def _wanted_places(conn: asyncpg.Connection, cluster: Cluster) -> tuple[list[str], list[str]]:
    """Return the workers whose processes all run while tasks wait for one, and the queues that wait at their cap."""
    waiting = [
        row
        for row in await conn.fetch(statement(__name__, "diagnose_queues_that_wait"), WAITS_S)
        if row["queue_name"] not in cluster.paused
    ]
    names = [row["queue_name"] for row in waiting]
    full = await conn.fetch(statement(__name__, "diagnose_full_workers"), WAITS_S, ALIVE_WITHIN_S, names)
    return [row["worker_id"] for row in full], [row["queue_name"] for row in waiting if _is_capped(row, cluster)]


def _long(row: Mapping[str, Any], known: Usual | None, cluster: Cluster) -> Finding:
    runs = span((cluster.now - row["since"]).total_seconds())
    which = "the longest runs" if row["count"] > 1 else "runs"
    if known is not None:
        evidence = f"{which} {runs}, usually {_length(known.p50_s)} (p95 {_length(known.p95_s)})"
        because = (
            f"That is more than {FAR:g} times the 95th percentile of {counted(known.runs, 'completed run')}"
            " in the last day."
        )
    else:
        on = f" on {place_of(row['worker_id'], None, row['worker_pid'])}" if row["worker_id"] else ""
        waits = ""
        if row["wanted"]:
            waits = "others wait for its place; "
        elif row["others"]:
            waits = f"{counted(row['others'], 'other', 'others')} in its child may wait for it; "
        evidence = f"{which} {runs}{on}; {waits}its usual duration is not known"
        because = (
            f"Fewer than {LEAST_RUNS} runs of it completed in the last day, so it counts as long after {span(WANTED_S)}"
            f" if others wait for its place, and after {span(LONG_S)} otherwise."
        )
    return about_rows(
        RUNS_LONG,
        row,
        PredictedAction("nothing: it still beats", Severity.NOTE),
        evidence,
        verbs=("fail", "requeue"),
        why=(because, "`horsies tasks stack`, or S on its screen, shows what it does now.", RUNS_AGAIN),
    )


def _behind(row: Mapping[str, Any], blamed: Container[str], cluster: Cluster) -> Finding:
    """Return a finding about jobs behind another: a child runs one job at a time unless all are `async def`.

    Rows do not show which tasks are `async def`. The finding raises no alert of its own if the earlier run has one.
    """
    place = place_of(row["worker_id"], None, row["worker_pid"])
    more = (
        f"; the same in {counted(row['children'] - 1, 'other child', 'other children')}" if row["children"] > 1 else ""
    )
    finding = about_rows(
        BEHIND_RUN,
        row,
        PredictedAction("start when the other run has ended", Severity.NOTE),
        f"RUNNING for {span((cluster.now - row['since']).total_seconds())} in {place},"
        f" where {_occupant(row, cluster)}{more}",
        verbs=("requeue",),
        why=(
            f"Its child began {row['first_name']} {row['first_id']} before it. Unless both are `async def`, its own"
            " code has not begun.",
            f"`horsies tasks stack {row['first_id']}`, or S on its screen, shows what the other run does now.",
            RUNS_AGAIN,
        ),
    )
    return finding if row["first_id"] in blamed else replace(finding, alert_severity=Severity.HANDLED)


def _occupant(row: Mapping[str, Any], cluster: Cluster) -> str:
    if row["first_id"] is None:  # rows without the time of their start
        return "the longest run is not known"
    runs = span((cluster.now - row["first_since"]).total_seconds())
    return f"{row['first_name']} {row['first_id'][-_ID_END:]} has run for {runs}"


async def _behind_busy(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    draining = await drain_orders(conn) if "horsies_worker_orders" in cluster.tables else {}
    text = statement(__name__, "diagnose_behind_busy")
    rows = await conn.fetch(text, WAITS_S, ALIVE_WITHIN_S, [*draining], MOST_IDS)
    # Keep tasks that wait only for their worker, not for the end of a pause or for room under a cap.
    free = [row for row in rows if row["queue_name"] not in cluster.paused and not _is_capped(row, cluster)]
    return [_claims(row, cluster) for row in free]


def _is_capped(row: Mapping[str, Any], cluster: Cluster) -> bool:
    serving = cluster.serving(row["queue_name"])
    caps = [group.caps[row["queue_name"]] for group in serving if row["queue_name"] in group.caps]
    of_cluster = [group.cluster_cap for group in serving if group.cluster_cap is not None]
    return bool((caps and row["running"] >= min(caps)) or (of_cluster and row["running_in_all"] >= min(of_cluster)))


def _claims(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    busy, idle = name_of(row["worker_id"]), name_of(row["idle_id"])
    waits = span((cluster.now - row["since"]).total_seconds())
    return about_rows(
        BEHIND_BUSY,
        row,
        PredictedAction(f"start when a process of {busy} is free", Severity.NOTE),
        f"claimed {waits} ago by {busy}, whose {row['processes']} processes are all busy:"
        f" {_occupant(row, cluster)}; {idle} has {row['free']} free",
        verbs=("release", "cancel"),
        why=(
            f"`horsies tasks stack {row['ids'][0]}` shows what runs in its place, as does S in its story.",
            f"{idle} serves {row['queue_name']} and has had room for {WAITS_S:.0f}s. A claim stays with its worker.",
            "Released, it is claimed by a worker that has room. User code has not begun, so nothing can happen twice.",
            "If it happens often, a smaller prefetch_buffer leaves tasks in the queue until a process is free.",
        ),
        worker_id=row["worker_id"],
    )


def _length(seconds: float) -> str:
    return span(seconds) if seconds >= 1 else f"{seconds * 1000:.0f}ms"


SEARCH = Search((RUNS_LONG, BEHIND_RUN, BEHIND_BUSY), _find)
