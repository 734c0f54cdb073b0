"""Rows for tests of the recovery report; every time is an SQL expression, because the database's clock counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import asyncpg

from horsies.findings import Finding, FindingKind
from horsies.findings.diagnose import Report, diagnose

CRASH_POLICY = json.dumps(
    {"retry_policy": {"auto_retry_for": ["WORKER_CRASHED"], "max_retries": 3, "intervals": [60], "jitter": False}}
)


def ago(seconds: float) -> str:
    return f"now() - {seconds} * interval '1 s'"


async def insert(conn: asyncpg.Connection, *ids: str, **columns: str) -> None:
    """Tasks with these ids; a column is given as an SQL expression."""
    given = {"task_name": "'demo.add'", "queue_name": "'default'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, {', '.join(given)}) SELECT id, {', '.join(given.values())}"
        " FROM unnest($1::text[]) WITH ORDINALITY AS new (id, number)",
        list(ids),
    )


async def running(conn: asyncpg.Connection, *ids: str, seconds: float, worker: str = "w-1", **columns: str) -> None:
    """Tasks that have run for this long."""
    held = {"status": "'RUNNING'", "claimed_by_worker_id": f"'{worker}'", "claimed_at": ago(seconds)}
    await insert(conn, *ids, **held, started_at=ago(seconds), **columns)


async def claimed(conn: asyncpg.Connection, *ids: str, seconds: float, worker: str = "w-1", **columns: str) -> None:
    """Tasks that were claimed this long ago."""
    held = {"status": "'CLAIMED'", "claimed": "true", "claimed_by_worker_id": f"'{worker}'"}
    await insert(conn, *ids, **{**held, "claimed_at": ago(seconds), "claim_expires_at": ago(-60), **columns})


async def beat(conn: asyncpg.Connection, task_id: str, seconds: float, role: str = "runner") -> None:
    await conn.execute(
        f"INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at) VALUES ($1, 'w-1:1', $2, {ago(seconds)})",
        task_id,
        role,
    )


async def worker(
    conn: asyncpg.Connection,
    worker_id: str = "w-1",
    *,
    seconds: float = 1,
    queues: Iterable[str] = ("default",),
    names: list[str] | None = None,
    caps: dict[str, int] | None = None,
    cluster_cap: int | None = None,
    settings: dict[str, Any] | None = None,
) -> None:
    """A worker's snapshot of this age."""
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at, task_names, queue_max_concurrency, cluster_wide_cap,"
        f" recovery_config) VALUES ($1, {ago(seconds)}, 'host', 1, 8, 8, 8, $2, now(), $3, $4, $5, $6)",
        worker_id,
        list(queues),
        names,
        None if caps is None else json.dumps(caps),
        cluster_cap,
        None if settings is None else json.dumps(settings),
    )


async def swept(conn: asyncpg.Connection, seconds: float, *, interval_ms: int = 30_000) -> None:
    await conn.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)"
        f" VALUES ('recovery', {ago(seconds)}, 'w-1', $1)",
        interval_ms,
    )


async def pause(conn: asyncpg.Connection, queue: str, *, by: str = "ops@bastion", reason: str | None = None) -> None:
    await conn.execute(
        "INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by, reason)"
        " VALUES ($1, now() - interval '3 min', $2, $3)",
        queue,
        by,
        reason,
    )


async def drain(conn: asyncpg.Connection, worker_id: str) -> None:
    await conn.execute("INSERT INTO horsies_worker_orders (worker_id, draining_since) VALUES ($1, now())", worker_id)


def of_kind(report: Report, kind: FindingKind) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind is kind]


async def the_only(conn: asyncpg.Connection, kind: FindingKind) -> Finding:
    """The report's only finding of this kind."""
    (finding,) = of_kind(await diagnose(conn), kind)
    return finding
