-- why.py; reads only. What counts under a cap, as the next claim counts it, which first releases what has expired ($1 queue)
SELECT count(*) FILTER (WHERE queue_name = $1) AS of_queue, count(*) AS of_cluster
  FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING')
   AND (status = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at
                              AND (claim_expires_at IS NULL OR claim_expires_at >= now()))
