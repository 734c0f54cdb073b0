-- views/counts.py; reads only ($1 to $67 as in view_candidates.sql, $68 a column, $69 groups at most)
-- Without a match: one row without a number.
SELECT statement_timestamp() AS now, found.*
  FROM (SELECT) always
  LEFT JOIN (
        SELECT CASE $68::text WHEN 'error_code' THEN error_code WHEN 'task_name' THEN task_name
                              WHEN 'queue_name' THEN queue_name WHEN 'worker' THEN claimed_by_worker_id END AS key,
               count(*) AS number, min(created_at) AS oldest, max(created_at) AS newest
          FROM task
         GROUP BY 1
         ORDER BY number DESC, key
         LIMIT $69
       ) found ON true
