-- claiming.unaccounted; reads only: as take_back.sql, what that would give back
-- ($1 worker, $2 tasks it holds, $3 claimed at)
SELECT id, claimed_at, status = 'CLAIMED' AS is_claimed, task_name, queue_name, priority, task_options, retry_count,
       max_retries, is_workflow_task
  FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = $1
   AND (id, claimed_at) NOT IN (SELECT id, claimed_at FROM unnest($2::text[], $3::timestamptz[]) AS held (id, claimed_at))
 ORDER BY id
