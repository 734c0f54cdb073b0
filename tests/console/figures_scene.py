"""A shop with every kind of problem, written with SQL; tests compare the figures on its screens with SQL."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from flow_steps import MONTH_END, month_end, node, workflow

if TYPE_CHECKING:
    import asyncpg

ALIVE, DRAINED, LOST, STOPPED = "web-1-1-aa", "web-2-1-bb", "web-3-1-cc", "web-4-1-dd"
_SILENT_S: Final = {ALIVE: 1, DRAINED: 1, LOST: 300, STOPPED: 50}
_QUEUES: Final = ("mail", "paused", "drained", "unserved")
_STATUSES: Final = {
    "PENDING": 6, "CLAIMED": 2, "RUNNING": 2, "COMPLETED": 16, "FAILED": 12, "CANCELLED": 2, "EXPIRED": 2,
}  # fmt: skip
_TASKS: Final = 300

_INSERT: Final = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, sent_at, enqueued_at, next_retry_at,
       retry_count, max_retries, error_code, completed_at, failed_at, claimed_by_worker_id, claimed, claimed_at,
       claim_expires_at, started_at)
SELECT id, 'shop.mail', queue, status, now() - interval '1 h', now() - interval '1 h', now() + ahead * interval '1 s',
       CASE WHEN retry THEN now() + ahead * interval '1 s' END, CASE WHEN retry THEN 1 ELSE 0 END, 3, error,
       CASE WHEN status = 'COMPLETED' THEN at END, CASE WHEN status <> 'COMPLETED' THEN at END, worker,
       worker IS NOT NULL, CASE WHEN worker IS NOT NULL THEN now() - interval '150 s' END,
       CASE WHEN worker IS NOT NULL THEN now() + interval '600 s' END,
       CASE WHEN status = 'RUNNING' THEN now() - interval '140 s'
            WHEN status IN ('COMPLETED', 'FAILED') THEN at - interval '3.2 s' END
  FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::float8[], $6::bool[], $7::text[], $8::text[])
       AS new (id, queue, status, ahead, ended, retry, error, worker)
 CROSS JOIN LATERAL (SELECT now() - ended * interval '1 s' AS at) AS moment
"""
_WORKER: Final = """
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
       max_claim_per_worker, queues, worker_started_at, tasks_running, draining, queue_max_concurrency, cpu_percent,
       memory_usage_mb, children_memory_mb, horsies_version)
SELECT $1::text, at, left($1::text, 5), 1, 8, 8, 8, $3::text[], now() - interval '3 h', $4, $5, '{"mail": 20}',
       41, 100, 312, '0.9.1'
  FROM unnest(ARRAY[now() - interval '3 h', now() - $2::float8 * interval '1 s']) AS at
"""


async def prepare(conn: asyncpg.Connection) -> None:
    """A paused queue, one without a worker; a drained, a lost and a stopped worker; retries, delays, failures."""
    rng = random.Random(13)
    for worker_id, silent in _SILENT_S.items():
        queues = ["drained"] if worker_id == DRAINED else ["mail", "paused"]
        told = 0 if worker_id == STOPPED else rng.randrange(9)  # its own figures are as old as its snapshot
        await conn.execute(_WORKER, worker_id, silent, queues, told, worker_id == STOPPED)
    await conn.execute(
        "INSERT INTO horsies_worker_orders (worker_id, draining_since) VALUES ($1, now() - interval '5 min')",
        DRAINED,
    )
    await conn.execute(
        "INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by)"
        " VALUES ('paused', now() - interval '3 min', 'ops@bastion')"
    )
    await conn.execute(
        "INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)"
        " VALUES ('recovery', now() - interval '5 s', $1, 3600000)",
        ALIVE,
    )
    rows = [_row(number, rng) for number in range(_TASKS)]
    await conn.execute(_INSERT, *(list(column) for column in zip(*rows, strict=True)))
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT id, 'web:1', CASE status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END, now() - interval '2 s'"
        "   FROM horsies_tasks WHERE claimed_by_worker_id = ANY ($1)",
        [ALIVE, DRAINED],
    )
    await month_end(conn)
    await conn.execute("UPDATE horsies_workflows SET status = 'PAUSED', error = '{}' WHERE id = $1", MONTH_END)
    for number, status in enumerate(("COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "PENDING")):
        workflow_id = f"019a7c2e-cccc-7000-8000-{number:012}"
        over = {"completed_at": "now() - interval '7 min'"} if status in ("COMPLETED", "FAILED") else {}
        await workflow(conn, workflow_id, f"order_{number}", status=f"'{status}'", **over)
        await node(conn, workflow_id, 0, "pay", status if over else "SKIPPED" if number == 3 else "PENDING")
    await conn.execute("ANALYZE")


def _row(number: int, rng: random.Random) -> tuple[object, ...]:
    """No time is near the edge of a window, so that seconds change no figure."""
    status = rng.choices(tuple(_STATUSES), tuple(_STATUSES.values()))[0]
    held = status in ("CLAIMED", "RUNNING")
    ended_s = None if held or status == "PENDING" else rng.choice((100.0, 200.0, 420.0, 2000.0))
    ahead_s = rng.choice((600.0, -90.0, -900.0)) if status == "PENDING" else -3000.0
    retry = ahead_s > 0 and rng.random() < 0.5
    error = rng.choice(("TASK_INTERRUPTED", "WORKER_CRASHED", "TIMEOUT", None)) if status == "FAILED" else None
    worker = rng.choice((ALIVE, DRAINED, LOST)) if held else None
    return f"t{number:05}", rng.choice(_QUEUES), status, ahead_s, ended_s, retry, error, worker


async def beat(conn: asyncpg.Connection) -> None:
    """Living workers store new snapshots; the ages of the others grow."""
    await conn.execute(
        "UPDATE horsies_worker_states SET snapshot_at = now() - interval '1 s'"
        " WHERE worker_id = ANY ($1) AND snapshot_at > now() - interval '1 h'",
        [ALIVE, DRAINED],
    )
