-- name: diagnose_expiring
-- findings/deadline_passed.py; reads only ($1 rows to count, $2 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(good_until)::timestamptz AS since,
       (array_agg(id ORDER BY good_until, id))[:$2] AS ids
  FROM (SELECT id, task_name, queue_name, good_until FROM horsies_tasks
         WHERE status = 'PENDING' AND good_until <= now()
         ORDER BY good_until
         LIMIT $1) late
 GROUP BY task_name, queue_name
 ORDER BY min(good_until)
