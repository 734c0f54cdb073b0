"""Thousands of tasks of a shop: most are completed, some failed, a few wait, run, or retry."""

from __future__ import annotations

import asyncpg

_FILL = """
INSERT INTO horsies_tasks (
    id, task_name, queue_name, priority, status, args, kwargs, sent_at, enqueued_at, created_at, updated_at,
    claimed_at, started_at, completed_at, failed_at, error_code, retry_count, max_retries, next_retry_at,
    claimed, claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name)
SELECT lpad(to_hex($1 - n), 8, '0') || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'),
       (ARRAY['send_confirmation', 'render_invoice', 'charge_card', 'sync_inventory', 'nightly_import'])[1 + n % 5],
       (ARRAY['mail', 'default', 'pay', 'default', 'bulk'])[1 + n % 5],
       (ARRAY[10, 100, 1, 100, 100])[1 + n % 5],
       status, '[]', '{"order": ' || n || '}', sent, sent, sent, now(),
       CASE WHEN status NOT IN ('PENDING') THEN sent + interval '50 milliseconds' END,
       CASE WHEN status NOT IN ('PENDING', 'CLAIMED', 'CANCELLED') THEN sent + interval '70 milliseconds' END,
       CASE WHEN status IN ('COMPLETED', 'CANCELLED') THEN sent + interval '1 second' * (1 + n % 7) END,
       CASE WHEN status = 'FAILED' THEN sent + interval '1 second' * (1 + n % 7) END,
       CASE WHEN status = 'FAILED' OR n % 67 = 5
            THEN (ARRAY['RATE_LIMITED', 'RATE_LIMITED', 'TIMEOUT', 'TASK_INTERRUPTED'])[1 + n / 3 % 4] END,
       n % 3, 3, CASE WHEN status = 'PENDING' AND n % 67 = 5 THEN now() + interval '41 seconds' END,
       status IN ('CLAIMED', 'RUNNING'),
       CASE WHEN status <> 'PENDING' THEN 'web-' || 1 + n % 3 || ':4121:abc' END,
       CASE WHEN status <> 'PENDING' THEN 'web-' || 1 + n % 3 END, CASE WHEN status <> 'PENDING' THEN 4121 END, 'child'
  FROM (SELECT n, now() - n * interval '0.5 seconds' AS sent,
               CASE WHEN n % 67 IN (4, 5) AND n < 2000 THEN 'PENDING'
                    WHEN n % 97 = 3 AND n < 2000 THEN 'RUNNING'
                    WHEN n % 211 = 8 AND n < 2000 THEN 'CLAIMED'
                    WHEN n % 13 = 2 THEN 'FAILED'
                    WHEN n % 301 = 1 THEN 'CANCELLED'
                    ELSE 'COMPLETED' END AS status
          FROM generate_series(1, $1::int) AS n) AS made
"""


async def fill(conn: asyncpg.Connection, count: int) -> None:
    """This many tasks, the newest half a second old, each half a second older than the one before."""
    await conn.execute(_FILL, count)
    await conn.execute(
        "INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)"
        " SELECT id, claimed_by_worker_id, 'runner', now() - interval '9 seconds'"
        " FROM horsies_tasks WHERE status = 'RUNNING'"
    )
    await conn.execute("ANALYZE horsies_tasks")
