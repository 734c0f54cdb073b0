-- name: finish_and_claim
-- finish_and_claim.finish_and_claim; the token and RUNNING of the tasks that end, and the rules of `claim` for the next
-- ones
-- ($1 worker, $2 to $8 as in `finish`, $9 to $15 as $2 to $8 in `claim`)
-- The same text as `finish` and `claim`, where the reasons are given; a test compares them. It does not search
-- beyond the first rows unless it is given `following`: then the worker's own claim follows. A child process goes from one task to the next with one
-- round trip and one commit instead of three.
WITH ended AS (
    UPDATE horsies_tasks task
       SET status = CASE token.outcome WHEN 'COMPLETED' THEN 'COMPLETED' ELSE 'FAILED' END,
           completed_at = CASE token.outcome WHEN 'COMPLETED' THEN statement_timestamp() END,
           failed_at = CASE token.outcome WHEN 'COMPLETED' THEN NULL ELSE statement_timestamp() END,
           result = token.result, error_code = token.error_code, failed_reason = token.failed_reason,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
           WITH ORDINALITY AS token (id, claimed_at, outcome, result, error_code, error_message, failed_reason, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
    RETURNING token.number, token.outcome, token.error_message, task.id, task.retry_count, task.error_code,
              task.failed_reason, COALESCE(task.started_at, task.claimed_at) AS started_at, task.updated_at,
              task.worker_hostname, task.worker_pid, task.worker_process_name
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT id,
           GREATEST(retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = ended.id
                                   ORDER BY attempt DESC LIMIT 1)) + 1,
           outcome, false, started_at, updated_at, error_code, error_message, failed_reason, $1,
           worker_hostname, worker_pid, worker_process_name
      FROM ended
), head AS MATERIALIZED (
    SELECT task.ctid AS found_at,
           COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large
      FROM (SELECT *
              FROM (SELECT ctid AS place, priority, enqueued_at, id
                      FROM horsies_tasks
                     WHERE status = 'PENDING' AND queue_name = $9 AND $15::text[] IS NULL
                       AND NOT EXISTS (SELECT FROM horsies_queue_state
                                        WHERE queue_name = $9 AND paused_at IS NOT NULL)
                     ORDER BY priority, enqueued_at, id
                     LIMIT 256) ordered
             ORDER BY priority, enqueued_at, id
             LIMIT 2 * $10 + 16) first
      JOIN horsies_tasks task ON task.ctid = first.place
     WHERE task.status = 'PENDING' AND ($12::text[] IS NULL OR task.task_name = ANY ($12))
       AND horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                           task.is_workflow_task, task.workflow_paused_at)
     ORDER BY first.priority, first.enqueued_at, first.id
     LIMIT $10 FOR NO KEY UPDATE OF task SKIP LOCKED
), first_ones AS (
    SELECT found_at, large, row_number() OVER () AS place, NULL::text[] AS after
      FROM head
    /* following */
), placed AS (
    SELECT found_at, large, place, after, ($13::integer[])[place] AS pid,
           ($13::integer[])[place] IS NOT NULL AND NOT large AS starts
      FROM first_ones
), claimed AS (
    UPDATE horsies_tasks task
       SET status = CASE WHEN starts THEN 'RUNNING' ELSE 'CLAIMED' END,
           claimed = NOT starts, claimed_by_worker_id = $1,
           claimed_at = statement_timestamp(),
           claim_expires_at = CASE WHEN NOT starts THEN statement_timestamp() + $11 * interval '1 ms' END,
           started_at = CASE WHEN starts THEN statement_timestamp() END,
           worker_pid = CASE WHEN starts THEN pid END,
           worker_hostname = CASE WHEN starts THEN $14 END,
           worker_process_name = CASE WHEN starts THEN 'worker-' || pid END,
           finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
      FROM placed
     WHERE task.ctid = placed.found_at
    RETURNING task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
              task.queue_name, task.priority,
              CASE WHEN NOT large THEN task.args END AS args, CASE WHEN NOT large THEN task.kwargs END AS kwargs, large,
              task.task_options, task.retry_count, task.max_retries, task.is_workflow_task,
              CASE WHEN starts THEN place - 1 END AS place, after
)
SELECT number, NULL AS id, NULL AS claimed_at, NULL AS enqueued_at, NULL AS task_name, NULL AS queue_name, NULL AS priority,
       NULL AS args, NULL AS kwargs, NULL AS large, NULL AS task_options, NULL AS retry_count, NULL AS max_retries,
       NULL AS is_workflow_task, NULL AS place, NULL AS after
  FROM ended
 UNION ALL
SELECT NULL, claimed.* FROM claimed

-- name: following
-- fragment of `finish_and_claim`, for a claim that is given `following`: `head` finds nothing then
-- Without it the server spends 8 µs of 285 less on a turn of one task: also a function that is not called is set up.
UNION ALL
SELECT one.found_at, one.large, one.place, CASE WHEN one.place = 1 THEN more.after END
  FROM horsies_claimable($9, $12, $10, $15) more,
       unnest(more.found_at, more.large) WITH ORDINALITY AS one (found_at, large, place)
