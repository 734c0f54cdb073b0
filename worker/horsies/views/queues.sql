-- name: view_pauses
-- views/queues.py; reads only
SELECT queue_name, paused_at, paused_by, reason FROM horsies_queue_state WHERE paused_at IS NOT NULL

-- name: view_consumers
-- views/queues.py; reads only: which workers serve which queues
-- ($1 how old the newest snapshot of a live worker may be, in s; $2 workers that have the order to drain)
SELECT own.*
       -- Upstream's tables lack the column: a name that the table does not have is then resolved here.
  FROM (VALUES (NULL::boolean)) AS absent (draining)
 CROSS JOIN LATERAL (
        SELECT DISTINCT ON (worker_id) worker_id, queues::text[], queue_priorities, queue_max_concurrency, snapshot_at, processes,
               COALESCE(draining, false) OR worker_id = ANY ($2::text[]) AS draining
          FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) own
       -- The last snapshot of a stopped worker has 0.
 WHERE own.processes > 0

-- name: view_queues
-- views/queues.py; reads only ($1 waiting tasks counted at most, an equal share for each queue)
-- The counts come from ix_horsies_tasks_ready alone.
WITH RECURSIVE /* levels */, waiting AS (
    SELECT queue_name, min(enqueued_at) FILTER (WHERE enqueued_at <= statement_timestamp()) AS oldest_due_at
      FROM level GROUP BY queue_name
), share AS (
    SELECT $1::bigint / GREATEST(count(*), 1) + 1 AS most FROM waiting
), flying AS (
    SELECT queue_name, count(*) FILTER (WHERE status = 'CLAIMED') AS claimed,
           count(*) FILTER (WHERE status = 'RUNNING') AS running,
           min(enqueued_at) FILTER (WHERE status = 'CLAIMED') AS oldest_claimed_at
      FROM horsies_tasks WHERE status IN /* tasks_in_flight */ GROUP BY queue_name
)
-- A claimed task has not begun, so it counts as waiting.
SELECT statement_timestamp() AS now, queue_name, LEAST(oldest_due_at, oldest_claimed_at) AS oldest_due_at,
       COALESCE(due, 0) AS due, COALESCE(later, 0) AS later,
       COALESCE(due + later >= (SELECT most FROM share), false) AS at_least, COALESCE(claimed, 0) AS claimed,
       COALESCE(running, 0) AS running
  FROM waiting
  LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE enqueued_at <= statement_timestamp()) AS due,
               count(*) FILTER (WHERE enqueued_at > statement_timestamp()) AS later
          FROM (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = waiting.queue_name
                 LIMIT (SELECT most FROM share)) counted
       ) counted ON true
  FULL JOIN flying USING (queue_name)
