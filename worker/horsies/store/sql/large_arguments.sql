-- claiming.large_arguments; the token ($1 task, $2 worker, $3 claimed at)
SELECT args, kwargs
  FROM horsies_tasks
 WHERE id = $1 AND CASE WHEN status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = $2 THEN claimed_at = $3 END
