"""A cluster at noon, made of the engine's row classes, for the tests of verdict, alerts and rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from worker_scene import a_snapshot

from horsies.config.recovery import RecoveryConfig
from horsies.findings import Finding, FindingKind, PredictedAction, Severity
from horsies.findings.cluster import SweepState
from horsies.findings.diagnose import Report
from horsies.findings.searches.in_flight import STALE_RUN, WORKER_LOST
from horsies.views import Count, Liveness, QueueRow, WorkerRow
from horsies_tui.health.glance import Glance

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def a_worker(
    worker_id: str = "web-1", liveness: Liveness = Liveness.ALIVE, silent_s: float = 2, **fields: Any
) -> WorkerRow:
    """A worker that runs 4 tasks in 8 processes."""
    snapshot = a_snapshot(
        at=ago(silent_s), hostname=worker_id, pid=7, running=4, claimed=0, children_memory_mb=200.0, memory_percent=1.0
    )
    usual = {"running": 4, "claimed": 0, "snapshot": snapshot}
    told = {"draining_since": None, "draining_by": None, "draining_reason": None}
    return WorkerRow(worker_id, liveness, ago(silent_s), "snapshot", silent_s, **{**usual, **told, **fields})


def a_queue(name: str = "mail", due: int = 0, **fields: Any) -> QueueRow:
    usual: dict[str, Any] = {
        "due": Count(due), "later": Count(0), "oldest_due_at": ago(5) if due else None, "claimed": 0, "running": 0,
        "cap": None, "priority": None, "workers": 1, "draining": 0,
        "paused_at": None, "paused_by": None, "paused_reason": None,
    }  # fmt: skip
    return QueueRow(name, **{**usual, **fields})


def a_finding(kind: FindingKind = STALE_RUN, name: str = "shop.import", count: int = 1, **fields: Any) -> Finding:
    prediction = PredictedAction(
        "fail as WORKER_CRASHED", fields.pop("severity", Severity.HANDLED), fields.pop("in_seconds", 18.0)
    )
    usual: dict[str, Any] = {
        "prediction": prediction, "target_kind": "task", "ids": tuple(f"{name}-{n}" for n in range(count)),
        "at_least": False, "since": ago(372), "evidence": "no heartbeat of its run for 6m12s, threshold 5m00s",
        "remedies": (), "why": (), "queue_name": "mail", "worker_id": "web-3",
    }  # fmt: skip
    return Finding(kind=kind, name=name, count=count, **{**usual, **fields})


def gone(worker_id: str = "web-3", count: int = 13) -> Finding:
    return a_finding(
        WORKER_LOST, worker_id, count, target_kind="worker", ids=(worker_id,), queue_name=None,
        worker_id=worker_id, evidence="no sign of life for 6m12s, holds 1 running and 12 claimed",
    )  # fmt: skip


def a_report(*findings: Finding, **fields: Any) -> Report:
    usual: dict[str, Any] = {
        "now": NOON, "settings": RecoveryConfig(), "settings_from": "web-1", "settings_differ": False,
        "sweep": SweepState(ago(5), "web-1", 30_000, 25.0), "workers_alive": 2,
    }  # fmt: skip
    return Report(findings=findings, **{**usual, **fields})


def a_glance(*findings: Finding, **fields: Any) -> Glance:
    """Two living workers and an empty queue, unless given otherwise."""
    usual: dict[str, Any] = {"workers": (a_worker("web-1"), a_worker("web-2")), "queues": (a_queue(),), "busy": 0.5}
    return Glance(NOON, report=fields.pop("report", a_report(*findings)), **{**usual, **fields})
