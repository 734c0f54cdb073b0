-- claiming.claim_expired; CLAIMED with a lease that has run out, else as claim.sql
-- ($1 worker, $2 queue, $3 how many, $4 lease in ms, $5 task names, NULL for any)
UPDATE horsies_tasks task
   SET claimed = true, claimed_by_worker_id = $1,
       claimed_at = statement_timestamp(),
       claim_expires_at = statement_timestamp() + $4 * interval '1 ms',
       updated_at = statement_timestamp()
 WHERE task.id = ANY (ARRAY(
           SELECT id
             FROM horsies_tasks
            WHERE status = 'CLAIMED' AND queue_name = $2 AND claim_expires_at < statement_timestamp()
              AND enqueued_at <= statement_timestamp()
              AND (next_retry_at IS NULL OR next_retry_at <= statement_timestamp())
              AND (good_until IS NULL OR good_until > statement_timestamp())
              AND ($5::text[] IS NULL OR task_name = ANY ($5))
              AND NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = $2 AND paused_at IS NOT NULL)
              AND CASE WHEN is_workflow_task THEN NOT horsies_is_held(id) ELSE true END
            ORDER BY priority, enqueued_at, id
            LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
       ))
   AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
RETURNING task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
          task.queue_name, task.priority,
          CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
               THEN task.args END AS args,
          CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
               THEN task.kwargs END AS kwargs,
          COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large,
          task.task_options, task.retry_count, task.max_retries, task.is_workflow_task
