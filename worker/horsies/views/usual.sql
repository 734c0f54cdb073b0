-- name: view_usual_durations
-- views/usual.py; reads only
-- ($1 names of tasks, $2 how long ago a task ended at most, $3 ended tasks read of each name at most)
-- The newest ones of each name, by ix_horsies_tasks_finished_by_name. Failed ones count towards $3, so that a name that
-- only fails is not read to its beginning.
SELECT name, run_s[1] AS p50_s, run_s[2] AS p95_s, runs
  FROM unnest($1::text[]) AS name
 CROSS JOIN LATERAL (
       SELECT percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                    ORDER BY extract(epoch FROM ended_at - started_at)::float8) AS run_s,
              count(*) AS runs
         FROM (SELECT status, started_at, COALESCE(completed_at, failed_at) AS ended_at
                 FROM horsies_tasks
                WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                  -- As rows, by which no other index can be read: in the order of times alone, all tasks of the last day
                  -- would be read for one name.
                  AND (task_name, COALESCE(completed_at, failed_at)) > (name, statement_timestamp() - $2::interval)
                  AND (task_name, COALESCE(completed_at, failed_at)) < (name, 'infinity'::timestamptz)
                ORDER BY task_name DESC, COALESCE(completed_at, failed_at) DESC
                LIMIT $3::integer) newest
        WHERE status = 'COMPLETED' AND started_at <= ended_at
       ) usual
 WHERE runs > 0
