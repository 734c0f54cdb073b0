-- views/counts.py; reads only ($1 to $65 as in view_candidates.sql, $66 a column, $67 groups at most)
-- Without a match: one row without a number.
SELECT statement_timestamp() AS now, found.*
  FROM (SELECT) always
  LEFT JOIN (
        SELECT CASE $66::text WHEN 'error_code' THEN error_code WHEN 'task_name' THEN task_name
                              WHEN 'queue_name' THEN queue_name WHEN 'worker' THEN claimed_by_worker_id END AS key,
               count(*) AS number, min(created_at) AS oldest, max(created_at) AS newest
          FROM task
         GROUP BY 1
         ORDER BY number DESC, key
         LIMIT $67
       ) found ON true
