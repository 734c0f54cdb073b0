-- operations/crashed.py, over crashed_tasks.sql; reads only ($1 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(failed_at)::timestamptz AS since,
       (array_agg(id ORDER BY failed_at, id))[:$1] AS ids,
       array_agg(DISTINCT claimed_by_worker_id) FILTER (WHERE claimed_by_worker_id IS NOT NULL) AS workers
  FROM crashed
 GROUP BY task_name, queue_name
 ORDER BY min(failed_at)
