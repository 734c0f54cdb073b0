"""The figures of the shop of figures_scene, counted with plain SQL: each figure that a screen of the console shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from figures_scene import LOST

if TYPE_CHECKING:
    import asyncpg

NOW: Final = "statement_timestamp()"
STATES: Final = f"""
SELECT CASE WHEN status = 'PENDING' AND next_retry_at > {NOW} THEN 'retry'
            WHEN status = 'FAILED' AND error_code = 'TASK_INTERRUPTED' THEN 'interrupted' ELSE lower(status) END,
       count(*)
  FROM horsies_tasks GROUP BY 1
"""
QUEUES: Final = f"""
SELECT queue_name AS queue, count(*) FILTER (WHERE status = 'PENDING') AS pending,
       count(*) FILTER (WHERE status = 'PENDING' AND enqueued_at <= {NOW}) AS due,
       count(*) FILTER (WHERE status = 'PENDING' AND enqueued_at > {NOW}) AS later,
       count(*) FILTER (WHERE status = 'CLAIMED') AS claimed, count(*) FILTER (WHERE status = 'RUNNING') AS running,
       extract(epoch FROM {NOW} - min(enqueued_at) FILTER (
           WHERE status = 'CLAIMED' OR status = 'PENDING' AND enqueued_at <= {NOW}))::float8 AS oldest,
       count(*) FILTER (WHERE enqueued_at > {NOW} - interval '5 min' AND enqueued_at <= {NOW}) / 300.0::float8 AS "in",
       count(*) FILTER (WHERE COALESCE(completed_at, failed_at) > {NOW} - interval '5 min') / 300.0::float8 AS "out"
  FROM horsies_tasks GROUP BY ROLLUP (queue_name) HAVING bool_or(status IN ('PENDING', 'CLAIMED', 'RUNNING'))
"""
MINUTE: Final = """
SELECT count(*) AS finished, count(*) FILTER (WHERE status = 'FAILED') AS failed,
       percentile_disc(ARRAY[0.95, 0.5]) WITHIN GROUP (
           ORDER BY GREATEST(extract(epoch FROM started_at - enqueued_at), 0)::float8) AS wait,
       percentile_disc(ARRAY[0.95, 0.5]) WITHIN GROUP (
           ORDER BY extract(epoch FROM COALESCE(completed_at, failed_at) - started_at)::float8) AS run
  FROM horsies_tasks
 WHERE COALESCE(completed_at, failed_at) >= date_trunc('minute', statement_timestamp()) + $1 * interval '1 min'
   AND COALESCE(completed_at, failed_at) < date_trunc('minute', statement_timestamp()) + ($1 + 1) * interval '1 min'
"""
FAILED: Final = f"""
SELECT COALESCE(error_code, 'failures without a code') AS code, count(*) FILTER (WHERE lately) AS lately,
       count(*) FILTER (WHERE NOT lately) / 12.0::float8 AS usual
  FROM (SELECT error_code, failed_at FROM horsies_tasks WHERE status = 'FAILED'
         UNION ALL
        SELECT error_code, finished_at FROM horsies_task_attempts WHERE will_retry AND outcome <> 'COMPLETED') failed
 CROSS JOIN LATERAL (SELECT failed_at > {NOW} - interval '10 min' AS lately) AS at
 WHERE failed_at > {NOW} - interval '130 min' GROUP BY 1
"""
FINDINGS: Final = f"""
SELECT 'interrupted' AS kind, 'needs' AS who, queue_name, count(*) AS rows FROM horsies_tasks
 WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED' GROUP BY queue_name
UNION ALL
SELECT 'crashed', 'needs', queue_name, count(*) FROM horsies_tasks
 WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED' GROUP BY queue_name
UNION ALL
SELECT 'paused by error', 'needs', name, 1 FROM horsies_workflows WHERE status = 'PAUSED' AND error IS NOT NULL
UNION ALL
SELECT CASE queue_name WHEN 'paused' THEN 'paused queue' ELSE 'no worker' END,
       CASE queue_name WHEN 'paused' THEN 'note' ELSE 'needs' END, queue_name, count(*)
  FROM horsies_tasks
 WHERE status = 'PENDING' AND enqueued_at <= {NOW} AND queue_name IN ('paused', 'drained', 'unserved')
 GROUP BY queue_name
UNION ALL
SELECT 'worker lost', 'system', claimed_by_worker_id, count(*) FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = '{LOST}' GROUP BY claimed_by_worker_id
UNION ALL
SELECT 'stale claim', 'system', queue_name, count(*) FROM horsies_tasks
 WHERE status = 'CLAIMED' AND claimed_by_worker_id = '{LOST}' GROUP BY queue_name
UNION ALL
SELECT 'runs long', 'note', queue_name, count(*) FROM horsies_tasks AS run
 WHERE status = 'RUNNING' AND claimed_by_worker_id <> '{LOST}'
   AND extract(epoch FROM {NOW} - started_at) > GREATEST(30, 3 * (
        SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM completed_at - started_at))
          FROM (SELECT * FROM horsies_tasks AS past
                 WHERE past.task_name = run.task_name AND COALESCE(completed_at, failed_at) > {NOW} - interval '1 day'
                 ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT 500) AS newest
         WHERE status = 'COMPLETED' AND started_at <= completed_at))
 GROUP BY queue_name
UNION ALL
SELECT 'task row gone', 'system', w.name, count(*) FROM horsies_workflow_tasks AS n JOIN horsies_workflows AS w
    ON w.id = n.workflow_id WHERE n.status = 'RUNNING' AND n.task_id IS NULL AND NOT n.is_subworkflow GROUP BY w.name
"""
TASKS: Final = f"""
SELECT id, extract(epoch FROM {NOW} - COALESCE(sent_at, created_at))::float8 AS age,
       extract(epoch FROM CASE WHEN started_at IS NOT NULL THEN started_at
                               WHEN status = 'CLAIMED' OR status = 'PENDING' AND enqueued_at <= {NOW} THEN {NOW}
                          END - enqueued_at)::float8 AS wait,
       extract(epoch FROM COALESCE(completed_at, failed_at, {NOW}) - started_at)::float8 AS run,
       retry_count + 1 || '/' || max_retries + 1 AS "try"
  FROM horsies_tasks
"""
WORKERS: Final = f"""
SELECT DISTINCT ON (s.worker_id) s.worker_id AS id, s.hostname || ':' || s.pid AS name, s.processes,
       extract(epoch FROM {NOW} - s.worker_started_at)::float8 AS up,
       s.cpu_percent AS cpu, s.memory_usage_mb AS own, s.children_memory_mb AS children,
       (SELECT count(*) FROM horsies_tasks AS t WHERE t.claimed_by_worker_id = s.worker_id AND t.status = 'RUNNING')
           AS running,
       (SELECT count(*) FROM horsies_tasks AS t WHERE t.claimed_by_worker_id = s.worker_id AND t.status = 'CLAIMED')
           AS claimed,
       extract(epoch FROM {NOW} - GREATEST(s.snapshot_at, (
           SELECT max(claimed_at) FROM horsies_tasks AS t WHERE t.claimed_by_worker_id = s.worker_id)))::float8
           AS silent
  FROM horsies_worker_states AS s ORDER BY s.worker_id, s.snapshot_at DESC
"""
FLOWS: Final = f"""
SELECT w.id, lower(w.status) AS state, extract(epoch FROM {NOW} - w.sent_at)::float8 AS age,
       extract(epoch FROM COALESCE(w.completed_at, CASE WHEN w.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
                                                        THEN w.updated_at ELSE {NOW} END) - w.started_at)::float8
           AS took,
       count(*) FILTER (WHERE n.status IN ('COMPLETED', 'FAILED', 'SKIPPED')) || '/' || count(*) AS done,
       count(*) FILTER (WHERE n.status = 'RUNNING') AS running, count(*) FILTER (WHERE n.status = 'FAILED') AS bad,
       count(*) FILTER (WHERE n.status IN ('PENDING', 'READY', 'ENQUEUED')) AS waiting
  FROM horsies_workflows AS w JOIN horsies_workflow_tasks AS n ON n.workflow_id = w.id
 WHERE w.parent_workflow_id IS NULL GROUP BY w.id
"""


async def sql(conn: asyncpg.Connection) -> dict[str, Any]:
    """All figures, from one snapshot of the database."""
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        return {
            "states": dict(await conn.fetch(STATES)),
            "queues": {row["queue"] or "all queues": row for row in await conn.fetch(QUEUES)},
            "minutes": [await conn.fetchrow(MINUTE, minute) for minute in (0, -1)],
            "second": await conn.fetchval(f"SELECT extract(epoch FROM {NOW} - date_trunc('minute', {NOW}))::float8"),
            "failed": {row["code"]: row for row in await conn.fetch(FAILED)},
            "findings": await conn.fetch(FINDINGS),
            "tasks": {row["id"]: row for row in await conn.fetch(TASKS)},
            "workers": {row["name"]: row for row in await conn.fetch(WORKERS)},
            "flows": {row["id"]: row for row in await conn.fetch(FLOWS)},
            "flows_in_table": await conn.fetchval("SELECT count(*) FROM horsies_workflows"),
            "held": await conn.fetch(
                "SELECT id, status FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')"
                " AND claimed_by_worker_id = $1", LOST),
        }  # fmt: skip
