-- why.py; reads only. How many of its queue are due and stand before it
-- ($1 queue, $2 priority, $3 enqueued at, $4 id, $5 how many to count) Each priority in use is visited, as in next_due.sql.
WITH RECURSIVE level AS (
    (SELECT priority FROM horsies_tasks
      WHERE status = 'PENDING' AND queue_name = $1 AND priority <= $2 ORDER BY priority LIMIT 1)
     UNION ALL
    SELECT next.priority
      FROM level
     CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks
                          WHERE status = 'PENDING' AND queue_name = $1 AND priority > level.priority AND priority <= $2
                          ORDER BY priority LIMIT 1) next
)
SELECT count(*)
  FROM (SELECT
          FROM level
         CROSS JOIN LATERAL (
                SELECT FROM horsies_tasks
                 WHERE status = 'PENDING' AND queue_name = $1 AND priority = level.priority AND enqueued_at <= now()
                   AND (enqueued_at, id) < (CASE level.priority WHEN $2 THEN $3::timestamptz ELSE 'infinity' END, $4)
                 LIMIT $5) before
         LIMIT $5) first_ones
