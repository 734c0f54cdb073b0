-- finishing.finish, for what was stopped before user code began; the token and RUNNING ($1 worker, $2 tasks, $3 claimed at)
UPDATE horsies_tasks task
   SET status = 'PENDING', claimed_at = NULL, claimed_by_worker_id = NULL, started_at = NULL, worker_pid = NULL,
       worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
       updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END
RETURNING token.number, task.enqueued_at
