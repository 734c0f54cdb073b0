-- name: view_names_that_ended
-- views/statistics.py; reads only ($1 length of the window, or $2 its beginning, $3 names at most)
-- The names of which a task ended within the window, by two hops in ix_horsies_tasks_finished_by_name for each name that
-- the table has.
WITH RECURSIVE known (task_name) AS (
    (SELECT task_name FROM horsies_tasks
      WHERE CASE WHEN status IN /* ended_tasks */
                 THEN COALESCE(completed_at, failed_at) IS NOT NULL END
      ORDER BY task_name LIMIT 1)
    UNION ALL
    SELECT (SELECT task_name FROM horsies_tasks
             WHERE CASE WHEN status IN /* ended_tasks */
                        THEN COALESCE(completed_at, failed_at) IS NOT NULL END
               AND task_name > known.task_name
             ORDER BY task_name LIMIT 1)
      FROM known WHERE known.task_name IS NOT NULL
)
SELECT statement_timestamp() AS now, window_begins.since,
       ARRAY(SELECT task_name::text
               FROM known
              WHERE task_name IS NOT NULL AND /* holds */
                AND EXISTS (
                    SELECT FROM horsies_tasks task
                     WHERE CASE WHEN status IN /* ended_tasks */
                                THEN COALESCE(completed_at, failed_at) IS NOT NULL END
                       AND task.task_name = known.task_name AND COALESCE(completed_at, failed_at) >= window_begins.since)
              LIMIT $3) AS names
  FROM (SELECT COALESCE($2::timestamptz,
                        date_trunc('second', statement_timestamp() - $1::interval)) AS since) AS window_begins

-- name: view_newest_of_each
-- views/statistics.py; reads only: the newest ended tasks of each name within the window
-- ($1 names, $2 beginning of the window, $4 tasks of each name at most)
SELECT newest.*
  FROM unnest($1::text[]) AS one (name)
 CROSS JOIN LATERAL (
       SELECT ended.*, count(*) OVER () AS number_read, min(at) OVER () AS reached
         FROM (SELECT COALESCE(completed_at, failed_at) AS at, task.*
                 FROM horsies_tasks task
                WHERE CASE WHEN status IN /* ended_tasks */
                           THEN COALESCE(completed_at, failed_at) IS NOT NULL END
                  AND task_name = one.name AND COALESCE(completed_at, failed_at) >= $2::timestamptz
                ORDER BY COALESCE(completed_at, failed_at) DESC
                LIMIT $4::integer) ended
       ) newest

-- name: view_statistics_candidates
-- views/statistics.py, which fills the slots; reads only: the rows of `view_newest_of_each` that match a filter
SELECT row.*
       -- Upstream's tables lack these columns: a name without an alias that the table does not have is resolved here.
  FROM (VALUES (false, NULL::timestamptz, NULL::text, NULL::text))
       AS absent (is_workflow_task, finalizing_at, unique_key, rerun_of)
 CROSS JOIN LATERAL (
       SELECT task.task_name, task.status, task.retry_count, task.enqueued_at, task.at, task.number_read, task.reached,
              CASE WHEN task.started_at <= task.at THEN task.started_at END AS started_at
         FROM (/* rows */) task
        WHERE /* holds */
       ) row

-- name: view_task_statistics
-- views/statistics.py; reads only, from the rows of `view_statistics_candidates`
-- ($2 beginning of the window, $3 its end, $4 tasks that were read of each name at most)
-- A task waits only from when it is due; after a retry, from when it was due last. One that never began has neither.
SELECT name, tasks, failed, retries, wait_s[1] AS wait_p50, wait_s[2] AS wait_p95, run_s[1] AS run_p50,
       run_s[2] AS run_p95, busy_s, partly, since,
       GREATEST(extract(epoch FROM $3::timestamptz) - extract(epoch FROM since), 0.1)::float8 AS over_s
  FROM (
        SELECT task_name AS name, count(*) AS tasks, count(*) FILTER (WHERE status = 'FAILED') AS failed,
               COALESCE(sum(retry_count), 0)::bigint AS retries,
               percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                    ORDER BY GREATEST(extract(epoch FROM started_at) - extract(epoch FROM enqueued_at), 0)::float8)
                    FILTER (WHERE started_at IS NOT NULL) AS wait_s,
               percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                    ORDER BY (extract(epoch FROM at) - extract(epoch FROM started_at))::float8)
                    FILTER (WHERE started_at IS NOT NULL) AS run_s,
               COALESCE(sum(extract(epoch FROM at) - extract(epoch FROM started_at)), 0)::float8 AS busy_s,
               max(number_read) = $4::integer AS partly,
               CASE WHEN max(number_read) = $4::integer THEN min(reached) ELSE $2::timestamptz END AS since
          FROM task GROUP BY task_name
       ) AS figures

-- name: view_has_index_by_name
-- views/statistics.py; reads only
SELECT to_regclass('ix_horsies_tasks_finished_by_name') IS NOT NULL

-- name: view_usual_durations
-- views/statistics.py; reads only
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
-- views/statistics.py; reads only ($1 names of tasks, $2 how long ago an attempt ended at most, $3 attempts read at most)
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
