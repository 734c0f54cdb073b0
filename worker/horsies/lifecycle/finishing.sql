-- name: stored_earlier
-- finishing.stored_earlier; reads only
-- ($1 worker, $2 tasks, $3 claimed at, $4 outcomes, $5 will retry, $6 error codes, $7 error messages)
-- A finished task keeps the token in its row. A task that is PENDING again has lost it, and is recognised by this
-- worker's first attempt since the claim.
SELECT token.number, attempt.will_retry, task.enqueued_at
  FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::boolean[], $6::text[], $7::text[])
       WITH ORDINALITY AS token (id, claimed_at, outcome, will_retry, error_code, error_message, number)
  JOIN horsies_tasks task ON task.id = token.id
 CROSS JOIN LATERAL (SELECT outcome, will_retry, error_code, error_message
                       FROM horsies_task_attempts
                      WHERE task_id = token.id AND worker_id = $1 AND started_at >= token.claimed_at
                      ORDER BY attempt LIMIT 1) attempt
 WHERE attempt.outcome = token.outcome
   AND (attempt.error_code, attempt.error_message) IS NOT DISTINCT FROM (token.error_code, token.error_message)
   AND CASE WHEN attempt.will_retry THEN token.will_retry
            ELSE task.status IN ('COMPLETED', 'FAILED') AND task.claimed_by_worker_id = $1
                 AND task.claimed_at = token.claimed_at END

-- name: mark_finalizing
-- finishing.mark_finalizing; the token and RUNNING; a heap-only update, as no index contains these columns
-- ($1 worker, $2 tasks, $3 claimed at)
-- It leaves out rows that another session has locked. The session may be the worker's own finish, which waits for one
-- row of its batch and has locked the others; the mark would wait for these, and no beat could follow it.
WITH free AS MATERIALIZED (
    SELECT task.id, token.number
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
      JOIN horsies_tasks task ON task.id = token.id
     WHERE task.id = ANY ($2)
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
       FOR NO KEY UPDATE OF task SKIP LOCKED
)
UPDATE horsies_tasks task
   SET finalizing_at = statement_timestamp(), finalizing_by_worker_id = $1, updated_at = statement_timestamp()
  FROM free
 WHERE task.id = ANY (ARRAY(SELECT id FROM free)) AND task.id = free.id
RETURNING free.number

-- name: retry
-- finishing.finish, for tasks that are to run again; the token and RUNNING; for a failure also: retries left, due
-- before good_until
-- ($1 worker, $2 tasks, $3 claimed at, $4 delays in s, NULL for an interrupt, $5 error codes, $6 error messages,
-- $7 failed reasons, $8 last lines of output, $9 task options, NULL to keep them)
WITH requeued AS (
    UPDATE horsies_tasks task
       SET retry_count = LEAST(task.retry_count, 2147483646) + 1,
           -- An interrupt is not the task's fault: it uses an attempt number, but no retry.
           max_retries = LEAST(task.max_retries, 2147483646) + (token.delay_s IS NULL)::integer,
           enqueued_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.enqueued_at),
           next_retry_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.next_retry_at),
           result = NULL, error_code = NULL, failed_reason = NULL,
           task_options = COALESCE(token.task_options, task.task_options),
           /* back_in_queue */, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[], $4::double precision[], $5::text[], $6::text[], $7::text[], $8::text[],
                  $9::text[])
           WITH ORDINALITY
           AS token (id, claimed_at, delay_s, error_code, error_message, failed_reason, output, task_options, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                THEN token.delay_s IS NULL
                     OR task.retry_count < task.max_retries
                        AND (task.good_until IS NULL
                             OR task.good_until > statement_timestamp() + token.delay_s * interval '1 s') END
    RETURNING task.id, task.queue_name, task.retry_count - 1 AS retry_count, task.enqueued_at, token.number, token.claimed_at,
              token.error_code, token.error_message, token.failed_reason, token.output,
              token.delay_s IS NULL AS interrupted
), runs AS (
    SELECT again.id, again.retry_count, CASE WHEN interrupted THEN 'WORKER_FAILURE' ELSE 'FAILED' END AS outcome,
           true AS will_retry, COALESCE(before.started_at, claimed_at) AS started_at,
           statement_timestamp() AS finished_at,
           COALESCE(error_code, CASE WHEN interrupted THEN 'TASK_INTERRUPTED' END) AS error_code, error_message,
           failed_reason, $1 AS worker_id, before.worker_hostname, before.worker_pid, before.worker_process_name, output,
           before.enqueued_at
      FROM requeued again
           -- A statement does not see its own changes: this still reads the columns that the update above has cleared.
     CROSS JOIN LATERAL (SELECT enqueued_at, started_at, worker_hostname, worker_pid, worker_process_name
                           FROM horsies_tasks WHERE id = again.id LIMIT 1) before
), /* history */, woken AS (
    -- Interrupted tasks are due now, but this worker is about to stop: other workers must be notified.
    SELECT queue_name, 'capacity:interrupted' AS notice FROM requeued WHERE interrupted
)
SELECT number, enqueued_at FROM requeued WHERE /* queues_notified */

-- name: unstart
-- finishing.finish, for tasks that were stopped before user code was called; the token and RUNNING
-- ($1 worker, $2 tasks, $3 claimed at)
UPDATE horsies_tasks task
   SET /* back_in_queue */, updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END
RETURNING token.number, task.enqueued_at

-- name: finish
-- finishing.finish; the token and RUNNING
-- ($1 worker, $2 tasks, $3 claimed at, $4 outcomes, $5 results, $6 error codes, $7 error messages, $8 failed reasons,
-- $9 last lines of output)
-- One task 0.26 ms, of which the disk takes 0.12; 10 tasks 0.43 ms; 50 tasks 1.1 ms.
WITH /* ended */
SELECT number FROM runs

-- name: ended
-- fragment of `finish` and `finish_and_claim`: the token and RUNNING; `runs` are those that it ends, with their attempts
runs AS (
    UPDATE horsies_tasks task
       SET status = CASE token.outcome WHEN 'COMPLETED' THEN 'COMPLETED' ELSE 'FAILED' END,
           completed_at = CASE token.outcome WHEN 'COMPLETED' THEN statement_timestamp() END,
           failed_at = CASE token.outcome WHEN 'COMPLETED' THEN NULL ELSE statement_timestamp() END,
           result = token.result, error_code = token.error_code,
           failed_reason = COALESCE(token.failed_reason, token.error_message, token.error_code),
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
           WITH ORDINALITY
           AS token (id, claimed_at, outcome, result, error_code, error_message, failed_reason, output, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
    RETURNING token.number, token.outcome, false AS will_retry, token.error_message, token.output, task.id,
              task.retry_count, task.error_code, token.failed_reason,
              COALESCE(task.started_at, task.claimed_at) AS started_at, task.updated_at AS finished_at,
              task.claimed_by_worker_id AS worker_id, task.worker_hostname, task.worker_pid, task.worker_process_name,
              task.enqueued_at
), /* history */

-- name: finish_and_claim
-- finishing.finish_and_claim; the token and RUNNING of the tasks that end, and the rules of `claim` for the next
-- ones
-- ($1 worker, $2 to $8 as in `claim`, $9 to $16 as $2 to $9 in `finish`)
-- It searches beyond the first rows only if $8 is empty; if it finds fewer than wanted, the worker's own claim follows.
-- A child process goes from one task to the next with one round trip and one commit instead of three.
WITH /* ended_here */, head AS MATERIALIZED (
    /* rows */
), first_ones AS (
    SELECT found_at, large, row_number() OVER () AS position, number, NULL::tid[] AS after
      FROM head
    /* search */
), /* placed */, claimed AS (
    /* take */
)
SELECT number, NULL AS id, NULL AS claimed_at, NULL AS enqueued_at, NULL AS task_name, NULL AS queue_name, NULL AS priority,
       NULL AS args, NULL AS kwargs, NULL AS large, NULL AS task_options, NULL AS retry_count, NULL AS max_retries,
       NULL AS is_workflow_task, NULL AS position, NULL AS in_following, NULL AS after, NULL AS sent_at, NULL AS good_until
  FROM runs
 UNION ALL
SELECT NULL, claimed.* FROM claimed

-- name: search_at_once
-- fragment of `finish_and_claim`, for a claim that is to search at once: `first_rows` finds nothing then
-- Without the search the server spends 8 µs of 285 less on one task: even a function that is not called is set up.
UNION ALL
SELECT one.found_at, one.large, one.position, NULL, CASE WHEN one.position = 1 THEN more.after END
  FROM horsies_claimable($2::text, $5::text[], $3::integer) more,
       unnest(more.found_at, more.large) WITH ORDINALITY AS one (found_at, large, position)
