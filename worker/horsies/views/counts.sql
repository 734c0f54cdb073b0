-- name: view_task_groups
-- views/counts.py; reads only, from the rows of `view_candidates` ($1 a column, $2 groups at most)
-- Without a match: one row without a number.
SELECT statement_timestamp() AS now, found.*
  FROM (SELECT) always
  LEFT JOIN (
        SELECT CASE $1::text WHEN 'error_code' THEN error_code WHEN 'task_name' THEN task_name
                              WHEN 'queue_name' THEN queue_name WHEN 'worker' THEN claimed_by_worker_id END AS key,
               count(*) AS number, min(created_at) AS oldest, max(created_at) AS newest
          FROM task
         GROUP BY 1
         ORDER BY number DESC, key
         LIMIT $2
       ) found ON true

-- name: view_task_counts
-- views/counts.py; reads only, from the rows of `view_candidates`
SELECT state, count(*) AS number FROM task GROUP BY state

-- name: view_waiting_count
-- views/counts.py; reads only, from indexes: how many tasks are PENDING, and how many of them wait for a retry
-- ($1 counted at most, of each)
SELECT (SELECT count(*)
          FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' LIMIT $1::bigint) AS pending) AS pending,
       (SELECT count(*)
          FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' AND next_retry_at > statement_timestamp()
                 LIMIT $1::bigint) AS retrying) AS retrying
