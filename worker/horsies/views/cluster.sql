-- name: view_pauses
-- views/cluster.py; reads only
SELECT queue_name, paused_at, paused_by, reason FROM horsies_queue_state WHERE paused_at IS NOT NULL

-- name: view_consumers
-- views/cluster.py; reads only: which workers serve which queues
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
-- views/cluster.py; reads only ($1 waiting tasks counted at most, an equal share for each queue)
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

-- name: view_ended_lately
-- views/cluster.py; reads only
-- ($1 how long ago at most, $2 tasks counted at most): how many tasks ended in which status, and since when
SELECT status, count(*) AS number, min(at) AS since
  FROM (SELECT status, COALESCE(completed_at, failed_at) AS at FROM horsies_tasks
         WHERE status IN /* ended_tasks */
           AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::interval
         ORDER BY COALESCE(completed_at, failed_at) DESC
         LIMIT $2) AS lately
 GROUP BY status

-- name: view_interrupted_count
-- views/cluster.py; reads only ($1 counted at most): tasks that were stopped at a shutdown and need a decision
SELECT count(*) FROM (SELECT FROM horsies_tasks WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED'
                       LIMIT $1::bigint) AS interrupted

-- name: view_exported_tables
-- views/cluster.py; reads only: which of our own tables exist
SELECT to_regclass('horsies_sweep_state') IS NOT NULL AS sweeps,
       to_regclass('horsies_schedule_state') IS NOT NULL AND to_regclass('horsies_schedules') IS NOT NULL
       AND to_regclass('horsies_schedulers') IS NOT NULL AS schedules

-- name: view_live_workflows
-- views/cluster.py; reads only ($1 counted at most): workflows that have not ended, by status, from the index of it
SELECT status, count(*) AS number
  FROM (SELECT status FROM horsies_workflows WHERE status IN /* open_workflows */ LIMIT $1) AS live
 GROUP BY status

-- name: view_sweep_ages
-- views/cluster.py; reads only: how long ago each rule was swept; its name may be followed by a threshold
SELECT split_part(sweep, ' ', 1) AS rule, date_part('epoch', statement_timestamp()) - date_part('epoch', max(ran_at)) AS age_s
  FROM horsies_sweep_state
 GROUP BY 1
 LIMIT 100

-- name: view_schedule_totals
-- views/cluster.py; reads only ($1 from how late on a slot is overdue, in s; $2 how old the sign of life of a live
-- scheduler may be, in s)
-- Rows of schedules are never deleted: a schedule that no known scheduler serves is abandoned, not overdue. Without any
-- scheduler the two cannot be distinguished.
WITH served AS (
    SELECT DISTINCT name FROM horsies_schedulers, unnest(schedules) AS name
)
SELECT count(*) AS schedules, count(paused_at) AS paused, count(late_s) AS overdue, COALESCE(max(late_s), 0) AS overdue_s,
       (SELECT count(*) FROM horsies_schedulers
         WHERE seen_at > statement_timestamp() - $2::float8 * interval '1 s') AS schedulers
  FROM (SELECT schedule.paused_at,
               CASE WHEN schedule.paused_at IS NULL
                         AND state.next_run_at < statement_timestamp() - $1::float8 * interval '1 s'
                         AND (state.schedule_name IN (SELECT name FROM served)
                              OR NOT EXISTS (SELECT FROM horsies_schedulers))
                    THEN date_part('epoch', statement_timestamp()) - date_part('epoch', state.next_run_at) END AS late_s
          FROM horsies_schedule_state state
          LEFT JOIN horsies_schedules schedule USING (schedule_name)) each
