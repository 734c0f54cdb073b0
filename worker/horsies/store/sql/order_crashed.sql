-- operations/crashed.py, over crashed_tasks.sql, before a worker is acknowledged; reads only ($1 workers)
SELECT claimed_by_worker_id AS worker_id, count(*)::integer AS tasks FROM crashed
 WHERE claimed_by_worker_id = ANY ($1::text[])
 GROUP BY claimed_by_worker_id
