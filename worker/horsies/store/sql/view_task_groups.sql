-- views/counts.py; reads only ($1 to $62 as in view_candidates.sql, $63 a column, $64 groups at most)
-- Without a match: one row without a number.
SELECT statement_timestamp() AS now, found.*
  FROM (SELECT) always
  LEFT JOIN (
        SELECT CASE $63::text WHEN 'error_code' THEN error_code WHEN 'task_name' THEN task_name
                              WHEN 'queue_name' THEN queue_name WHEN 'worker' THEN claimed_by_worker_id END AS key,
               count(*) AS number, min(created_at) AS oldest, max(created_at) AS newest
          FROM task
         GROUP BY 1
         ORDER BY number DESC, key
         LIMIT $64
       ) found ON true
