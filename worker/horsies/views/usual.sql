-- name: view_has_index_by_name
-- views/usual.py; reads only
SELECT to_regclass('ix_horsies_tasks_finished_by_name') IS NOT NULL

-- name: view_usual_durations
-- views/usual.py; reads only
-- ($1 names of tasks, $2 how long ago a task ended at most, $3 ended tasks read of each name at most)
-- The newest ones of each name, by ix_horsies_tasks_finished_by_name. Failed ones count towards $3, so that a name that
-- only fails is not read to its beginning.
SELECT name, run_s[1] AS p50_s, run_s[2] AS p95_s, runs
  FROM unnest($1::text[]) AS name
 CROSS JOIN LATERAL (
       SELECT percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                    ORDER BY (extract(epoch FROM ended_at) - extract(epoch FROM started_at))::float8) AS run_s,
              count(*) AS runs
         FROM (SELECT status, started_at, COALESCE(completed_at, failed_at) AS ended_at
                 FROM horsies_tasks
                WHERE CASE WHEN status IN /* ended_tasks */
                           THEN COALESCE(completed_at, failed_at) IS NOT NULL END
                  AND task_name = name
                  AND COALESCE(completed_at, failed_at) > statement_timestamp() - $2::interval
                ORDER BY COALESCE(completed_at, failed_at) DESC
                LIMIT $3::integer) newest
        WHERE status = 'COMPLETED' AND started_at <= ended_at
       ) usual
 WHERE runs > 0

-- name: view_usual_attempts
-- views/usual.py; reads only ($1 names of tasks, $2 how long ago an attempt ended at most, $3 attempts read at most)
-- Where the index by name is missing. Upstream's databases have one on the end of attempts.
SELECT task_name AS name, run_s[1] AS p50_s, run_s[2] AS p95_s, runs
  FROM (SELECT task_name,
               percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                    ORDER BY (extract(epoch FROM newest.finished_at) - extract(epoch FROM newest.started_at))::float8) AS run_s,
               count(*) AS runs
          FROM (SELECT task_id, outcome, started_at, finished_at
                  FROM horsies_task_attempts
                 WHERE finished_at > statement_timestamp() - $2::interval
                 ORDER BY finished_at DESC
                 LIMIT $3::integer) newest
          JOIN horsies_tasks task ON task.id = newest.task_id
         WHERE outcome = 'COMPLETED' AND task_name = ANY ($1::text[]) AND newest.started_at <= newest.finished_at
         GROUP BY task_name) usual
