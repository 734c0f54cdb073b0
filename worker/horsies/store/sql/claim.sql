-- claiming.claim; PENDING, due, not past good_until, the queue not paused; a row that somebody holds is left out
-- ($1 worker, $2 queue, $3 how many, $4 lease in ms, $5 task names, NULL for any)
UPDATE horsies_tasks task
   SET status = 'CLAIMED', claimed = true, claimed_by_worker_id = $1,
       -- The second half of the token. Not now(): two claims of a row in one transaction must differ.
       claimed_at = statement_timestamp(),
       claim_expires_at = statement_timestamp() + $4 * interval '1 ms',
       updated_at = statement_timestamp()
       -- An array and no join: with a join the plan depends on how many rows the planner expects from the limit.
 WHERE task.id = ANY (ARRAY(
           SELECT id FROM (
               SELECT id
                 FROM horsies_tasks
                WHERE status = 'PENDING' AND queue_name = $2 AND enqueued_at <= statement_timestamp()
                  AND (next_retry_at IS NULL OR next_retry_at <= statement_timestamp())
                  AND (good_until IS NULL OR good_until > statement_timestamp())
                  AND ($5::text[] IS NULL OR task_name = ANY ($5))
                  AND NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = $2 AND paused_at IS NOT NULL)
                ORDER BY priority, enqueued_at, id
                -- A literal, for `LIMIT $3` alone the generic plan is a sort of all that wait. Rows are locked as they
                -- are fetched, so the outer limit decides how many.
                LIMIT 256 FOR NO KEY UPDATE SKIP LOCKED
           ) first_ones
           LIMIT $3
       ))
       -- A claim that a crash of the server undoes has started nothing, and the commit of its start makes it durable.
       -- One task: 0.07 ms instead of 0.23 ms; 50 tasks: 0.61 ms instead of 0.79 ms.
   AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
RETURNING task.id, task.claimed_at, task.enqueued_at, task.task_name, task.queue_name, task.priority,
          CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
               THEN task.args END AS args,
          CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
               THEN task.kwargs END AS kwargs,
          COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large,
          task.task_options, task.retry_count, task.max_retries, task.is_workflow_task
