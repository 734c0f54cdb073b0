-- name: finish_and_claim
-- finish_and_claim.finish_and_claim; the token and RUNNING of the tasks that end, and the rules of `claim` for the next
-- ones
-- ($1 worker, $2 to $8 as in `claim`, $9 to $16 as $2 to $9 in `finish`)
-- The same text as `finish` and `claim`, where the reasons are given; a test compares them. It searches beyond the
-- first rows only if $8 is empty; if it finds fewer than wanted, the worker's own claim follows. A child process goes
-- from one task to the next with one round trip and one commit instead of three.
WITH ended AS (
    UPDATE horsies_tasks task
       SET status = CASE token.outcome WHEN 'COMPLETED' THEN 'COMPLETED' ELSE 'FAILED' END,
           completed_at = CASE token.outcome WHEN 'COMPLETED' THEN statement_timestamp() END,
           failed_at = CASE token.outcome WHEN 'COMPLETED' THEN NULL ELSE statement_timestamp() END,
           result = token.result, error_code = token.error_code,
           failed_reason = COALESCE(token.failed_reason, token.error_message, token.error_code),
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM unnest($9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
                  $16::text[])
           WITH ORDINALITY
           AS token (id, claimed_at, outcome, result, error_code, error_message, failed_reason, output, number)
     WHERE task.id = ANY ($9) AND task.id = token.id
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
    RETURNING token.number, token.outcome, token.error_message, token.output, task.id, task.retry_count,
              task.error_code, token.failed_reason, COALESCE(task.started_at, task.claimed_at) AS started_at,
              task.updated_at, task.worker_hostname, task.worker_pid, task.worker_process_name
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name, output)
    SELECT id,
           /* attempt_number */,
           outcome, false, started_at, updated_at, error_code, error_message, failed_reason, $1,
           worker_hostname, worker_pid, worker_process_name, output
      FROM ended run
), head AS MATERIALIZED (
    /* first_rows */
), first_ones AS (
    SELECT found_at, large, row_number() OVER () AS place, number, NULL::tid[] AS after
      FROM head
    /* search_at_once */
), placed AS (
    SELECT found_at, large, place, number, after, ($6::integer[])[place] AS pid,
           ($6::integer[])[place] IS NOT NULL AND NOT large AS starts
      FROM first_ones
), claimed AS (
    UPDATE horsies_tasks task
       SET status = CASE WHEN starts THEN 'RUNNING' ELSE 'CLAIMED' END,
           claimed = NOT starts, claimed_by_worker_id = $1,
           claimed_at = statement_timestamp(),
           claim_expires_at = CASE WHEN NOT starts THEN statement_timestamp() + $4 * interval '1 ms' END,
           started_at = CASE WHEN starts THEN statement_timestamp() END,
           worker_pid = CASE WHEN starts THEN pid END,
           worker_hostname = CASE WHEN starts THEN $7 END,
           worker_process_name = CASE WHEN starts THEN 'worker-' || pid END,
           finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
      FROM placed
     WHERE task.ctid = placed.found_at
    RETURNING task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
              task.queue_name, task.priority,
              CASE WHEN NOT large THEN task.args END AS args, CASE WHEN NOT large THEN task.kwargs END AS kwargs, large,
              task.task_options, task.retry_count, task.max_retries, task.is_workflow_task,
              CASE WHEN starts THEN place - 1 END AS place, number, after,
              date_part('epoch', task.sent_at) AS sent_at, date_part('epoch', task.good_until) AS good_until
)
SELECT number, NULL AS id, NULL AS claimed_at, NULL AS enqueued_at, NULL AS task_name, NULL AS queue_name, NULL AS priority,
       NULL AS args, NULL AS kwargs, NULL AS large, NULL AS task_options, NULL AS retry_count, NULL AS max_retries,
       NULL AS is_workflow_task, NULL AS place, NULL AS in_following, NULL AS after, NULL AS sent_at, NULL AS good_until
  FROM ended
 UNION ALL
SELECT NULL, claimed.* FROM claimed

-- name: search_at_once
-- fragment of `finish_and_claim`, for a claim that is to search at once: `first_rows` finds nothing then
-- Without it the server spends 8 µs of 285 less on a turn of one task: also a function that is not called is set up.
UNION ALL
SELECT one.found_at, one.large, one.place, NULL, CASE WHEN one.place = 1 THEN more.after END
  FROM horsies_claimable($2::text, $5::text[], $3::integer) more,
       unnest(more.found_at, more.large) WITH ORDINALITY AS one (found_at, large, place)
