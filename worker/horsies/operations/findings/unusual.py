"""Running tasks far beyond the usual duration of their name, and claims behind a busy worker while another one idles.

Nothing is broken yet: such tasks give signs of life. What gives none is found by in_flight.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.lifecycle.recovering import with_beats
from horsies.operations.cluster import ALIVE_WITHIN_S
from horsies.operations.findings import (
    MOST_IDS,
    RUNS_AGAIN,
    Finding,
    FindingKind,
    PredictedAction,
    Search,
    Severity,
    about_tasks,
    remedies,
)
from horsies.operations.formatting import counted, span
from horsies.store.statements import statement
from horsies.views.usual import usual_durations
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import asyncpg

    from horsies.operations.cluster import Cluster
    from horsies.views import Usual

RUNS_LONG = FindingKind(
    "runs long", 230, state="RUNNING", tasks="status:running", by_id=True, alert_severity=Severity.HANDLED
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
"""A run is unusual from this many times the 95th percentile of its name on."""
LEAST_RUNS: Final = 20
"""Of a name with fewer completed runs in the last day nothing is said."""
LEAST_S: Final = 30.0
"""A shorter run is never unusual, however short the others are."""
WAITS_S: Final = 15.0
"""A claim waits for this long, and another worker has had room for as long: three snapshots."""
BEATS_MISSED: Final = 3
"""A run that has missed so many beats is no longer said to be only slow."""
_MOST_NAMES: Final = 40
"""The names whose usual durations are read: 20,000 tasks at most, 50 ms."""


async def _find(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    return [*await _long_runs(conn, cluster), *await _behind_busy(conn, cluster)]


async def _long_runs(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    running = await conn.fetch(statement(__name__, "diagnose_names_that_run"), LEAST_S, _MOST_NAMES)
    usual = await usual_durations(conn, [row["task_name"] for row in running])
    far = {name: max(one.p95_s * FAR, LEAST_S) for name, one in usual.items() if one.runs >= LEAST_RUNS}
    if not far:
        return []
    rows = await conn.fetch(
        with_beats(__name__, "diagnose_long_runs"),
        [*far],
        [*far.values()],
        BEATS_MISSED * cluster.settings.runner_heartbeat_interval_ms,
        MOST_IDS,
    )
    return [_long(row, usual[row["task_name"]], cluster) for row in rows]


def _long(row: Mapping[str, Any], known: Usual, cluster: Cluster) -> Finding:
    runs = span((cluster.now - row["since"]).total_seconds())
    which = "the longest runs" if row["count"] > 1 else "runs"
    return about_tasks(
        RUNS_LONG,
        row,
        PredictedAction("nothing: it still beats", Severity.NOTE),
        evidence=f"{which} {runs}, usually {_length(known.p50_s)} (p95 {_length(known.p95_s)})",
        verbs=("fail", "requeue"),
        why=(
            f"That is more than {FAR:g} times the 95th percentile of {counted(known.runs, 'completed run')}"
            " in the last day.",
            "`horsies tasks stack` shows what it does now, as does S in its story.",
            RUNS_AGAIN,
        ),
        at_least=False,
    )


async def _behind_busy(conn: asyncpg.Connection, cluster: Cluster) -> list[Finding]:
    drains = "horsies_worker_orders" in cluster.tables
    draining = await conn.fetch(statement("horsies.operations.cluster", "diagnose_draining")) if drains else []
    rows = await conn.fetch(
        statement(__name__, "diagnose_behind_busy"),
        WAITS_S,
        ALIVE_WITHIN_S,
        [row["worker_id"] for row in draining],
        MOST_IDS,
    )
    return [_claims(row, cluster) for row in rows if _may_start(row, cluster)]


def _may_start(row: Mapping[str, Any], cluster: Cluster) -> bool:
    """Whether only its worker keeps it waiting, and neither a pause nor a cap."""
    serving = cluster.serving(row["queue_name"])
    caps = [group.caps[row["queue_name"]] for group in serving if row["queue_name"] in group.caps]
    of_cluster = [group.cluster_cap for group in serving if group.cluster_cap is not None]
    full = (caps and row["running"] >= min(caps)) or (of_cluster and row["running_in_all"] >= min(of_cluster))
    return row["queue_name"] not in cluster.paused and not full


def _claims(row: Mapping[str, Any], cluster: Cluster) -> Finding:
    busy, idle = name_of(row["worker_id"]), name_of(row["idle_id"])
    waits = span((cluster.now - row["since"]).total_seconds())
    return Finding(
        kind=BEHIND_BUSY,
        target_kind="task",
        name=row["task_name"],
        ids=tuple(row["ids"]),
        count=row["count"],
        since=row["since"],
        evidence=f"claimed {waits} ago by {busy}, all {row['processes']} of whose processes run;"
        f" {idle} has {row['free']} free",
        prediction=PredictedAction(f"start when a process of {busy} is free", Severity.NOTE),
        remedies=remedies("task", row["ids"], "release", "cancel"),
        why=(
            f"{idle} serves {row['queue_name']} and has had room for {WAITS_S:.0f}s. A claim stays with its worker.",
            "Released, it is claimed by a worker that has room. User code has not begun, so nothing can happen twice.",
            "If it happens often, a smaller prefetch_buffer leaves tasks in the queue until a process is free.",
        ),
        queue_name=row["queue_name"],
        worker_id=row["worker_id"],
    )


def _length(seconds: float) -> str:
    return span(seconds) if seconds >= 1 else f"{seconds * 1000:.0f}ms"


SEARCH = Search((RUNS_LONG, BEHIND_BUSY), _find)
