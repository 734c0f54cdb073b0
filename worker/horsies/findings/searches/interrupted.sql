-- name: diagnose_interrupted
-- searches/interrupted.py; reads only ($1 rows to count, $2 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(failed_at)::timestamptz AS since,
       (array_agg(id ORDER BY failed_at, id))[:$2] AS ids,
       array_agg(DISTINCT COALESCE(worker_hostname, claimed_by_worker_id)) AS hosts
  FROM (SELECT id, task_name, queue_name, failed_at, worker_hostname, claimed_by_worker_id FROM horsies_tasks
         WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED'
         LIMIT $1) stopped
 GROUP BY task_name, queue_name
 ORDER BY min(failed_at)
