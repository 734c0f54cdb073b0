"""Workers as the views return them, constructed for tests: alive at noon unless given otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from horsies.views import Liveness, Snapshot, WorkerRow

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def a_snapshot(**fields: Any) -> Snapshot:
    usual: dict[str, Any] = {
        "at": ago(2),
        "hostname": "web-1",
        "pid": 4121,
        "processes": 8,
        "max_claim_batch": 4,
        "max_claim_per_worker": 16,
        "cluster_wide_cap": None,
        "queues": ("mail", "pay"),
        "queue_priorities": {"pay": 1, "mail": 10},
        "queue_max_concurrency": {"pay": 5},
        "recovery_config": {},
        "running": 3,
        "claimed": 1,
        "memory_mb": 100.0,
        "children_memory_mb": 300.0,
        "memory_percent": 5.0,
        "cpu_percent": 41.0,
        "started_at": ago(3600),
        "version": "0.9.1",
        "draining": False,
    }
    return Snapshot(**{**usual, **fields})


def a_worker(number: int = 1, *, told: dict[str, Any] | None = None, **fields: Any) -> WorkerRow:
    """`told` are fields of its snapshot; `snapshot=None` is a worker without a snapshot."""
    silent_s = fields.pop("silent_s", 2.0)
    usual: dict[str, Any] = {
        "id": f"web-1-{4120 + number}-0a0b0c0d",
        "liveness": Liveness.ALIVE,
        "seen_at": ago(silent_s),
        "seen_by": "snapshot",
        "silent_s": silent_s,
        "running": 3,
        "claimed": 1,
        "snapshot": a_snapshot(**{"pid": 4120 + number, "at": ago(silent_s), **(told or {})}),
        "draining_since": None,
        "draining_by": None,
        "draining_reason": None,
    }
    return WorkerRow(**{**usual, **fields})


def gone(number: int = 1, *, held: int = 0, silent_s: float = 372.0, **fields: Any) -> WorkerRow:
    return a_worker(
        number, liveness=Liveness.LOST, silent_s=silent_s, running=min(held, 1), claimed=max(held - 1, 0), **fields
    )
