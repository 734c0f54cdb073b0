-- name: diagnose_interrupted
-- searches/crashed.py; reads only ($1 rows to count, $2 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(failed_at)::timestamptz AS since,
       (array_agg(id ORDER BY failed_at, id))[:$2] AS ids,
       array_agg(DISTINCT COALESCE(worker_hostname, claimed_by_worker_id)) AS hosts
  FROM (SELECT id, task_name, queue_name, failed_at, worker_hostname, claimed_by_worker_id FROM horsies_tasks
         WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED'
         LIMIT $1) stopped
 GROUP BY task_name, queue_name
 ORDER BY min(failed_at)

-- name: diagnose_crashed
-- searches/crashed.py; reads only; worker, child and reason of the newest ($1 ids of each name)
WITH /* crashed */
SELECT task_name, queue_name, count(*) AS count, min(failed_at)::timestamptz AS since,
       (array_agg(id ORDER BY failed_at, id))[:$1] AS ids,
       array_agg(DISTINCT claimed_by_worker_id) FILTER (WHERE claimed_by_worker_id IS NOT NULL) AS workers,
       (array_agg(claimed_by_worker_id ORDER BY failed_at DESC, id))[1] AS worker_id,
       (array_agg(worker_pid ORDER BY failed_at DESC, id))[1] AS worker_pid,
       (array_agg(left(failed_reason, 300) ORDER BY failed_at DESC, id))[1] AS reason
  FROM crashed
 GROUP BY task_name, queue_name
 ORDER BY min(failed_at)

-- name: order_crashed
-- searches/crashed.py, before a worker is acknowledged; reads only ($1 workers, $2 the only task name, NULL for all)
WITH /* crashed */
SELECT claimed_by_worker_id AS worker_id, task_name, array_agg(id) AS ids FROM crashed
 WHERE claimed_by_worker_id = ANY ($1::text[]) AND ($2::text IS NULL OR task_name = $2)
 GROUP BY claimed_by_worker_id, task_name
 ORDER BY claimed_by_worker_id, count(*) DESC, task_name
