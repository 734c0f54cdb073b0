-- why.py; reads only. What counts under a cap, as the claim counts it ($1 queue)
SELECT count(*) FILTER (WHERE queue_name = $1) AS of_queue, count(*) AS of_cluster
  FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING')
   AND (status = 'RUNNING' OR claim_expires_at IS NULL OR claim_expires_at >= now())
