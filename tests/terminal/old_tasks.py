"""Inserts any number of tasks that ended days ago."""

from __future__ import annotations

import asyncpg

FILL = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, created_at, sent_at, enqueued_at,
                           claimed_at, started_at, completed_at)
SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'shop.task_' || n % 40, 'q' || n % 6, 'COMPLETED',
       'w-' || n % 9, at, at, at, at, at + interval '1 s', at + interval '3 s'
  FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT now() - interval '3 days' - n * interval '1 s' AS at) made
"""


async def fill(connection: asyncpg.Connection, count: int) -> None:
    """Number 1 is the newest; each is a second older than the one before."""
    await connection.execute("SET session_replication_role = replica")  # no listener needs the notifications
    await connection.execute(FILL, count)
    await connection.execute("SET session_replication_role = DEFAULT")
    await connection.execute("VACUUM ANALYZE horsies_tasks")
