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
