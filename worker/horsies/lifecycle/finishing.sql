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
       SET status = 'PENDING', retry_count = LEAST(task.retry_count, 2147483646) + 1,
           -- An interrupt is not the task's fault: it uses an attempt number, but no retry.
           max_retries = LEAST(task.max_retries, 2147483646) + (token.delay_s IS NULL)::integer,
           enqueued_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.enqueued_at),
           next_retry_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.next_retry_at),
           result = NULL, error_code = NULL, failed_reason = NULL,
           task_options = COALESCE(token.task_options, task.task_options),
           claimed_at = NULL, claimed_by_worker_id = NULL, started_at = NULL, worker_pid = NULL,
           worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
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
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name, output)
    SELECT run.id,
           /* attempt_number */,
           CASE WHEN interrupted THEN 'WORKER_FAILURE' ELSE 'FAILED' END, true,
           COALESCE(before.started_at, claimed_at), statement_timestamp(),
           COALESCE(error_code, CASE WHEN interrupted THEN 'TASK_INTERRUPTED' END), error_message, failed_reason, $1,
           before.worker_hostname, before.worker_pid, before.worker_process_name, output
      FROM requeued run
           -- A statement does not see its own changes: this still reads the columns that the update above has cleared.
     CROSS JOIN LATERAL (SELECT started_at, worker_hostname, worker_pid, worker_process_name
                           FROM horsies_tasks WHERE id = run.id LIMIT 1) before
)
SELECT number, enqueued_at
  FROM requeued
       -- Interrupted tasks are due now, and this worker is about to stop: notify other workers once for each queue.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:interrupted'))
          FROM (SELECT DISTINCT queue_name AS name FROM requeued
                 WHERE interrupted AND octet_length(queue_name) <= 52) queue) >= 0

-- name: unstart
-- finishing.finish, for tasks that were stopped before user code was called; the token and RUNNING
-- ($1 worker, $2 tasks, $3 claimed at)
UPDATE horsies_tasks task
   SET status = 'PENDING', claimed_at = NULL, claimed_by_worker_id = NULL, started_at = NULL, worker_pid = NULL,
       worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
       updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END
RETURNING token.number, task.enqueued_at

-- name: finish
-- finishing.finish; the token and RUNNING
-- ($1 worker, $2 tasks, $3 claimed at, $4 outcomes, $5 results, $6 error codes, $7 error messages, $8 failed reasons,
-- $9 last lines of output)
-- One task 0.26 ms, of which the disk takes 0.12; 10 tasks 0.43 ms; 50 tasks 1.1 ms.
WITH ended AS (
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
)
SELECT number FROM ended

-- name: attempt_number
-- fragment of all statements that store the attempt of `run`, which has a task's id and its retry_count at that time
-- After an operator's requeue that reset retry_count, the next free number is used; else one such row would fail its
-- whole batch at each try. Costs 0.02 ms for 50 tasks. No number follows the largest one, which a row that was written
-- by hand may have: then the time in ms is one, so that every task can be ended. To look for a free one would cost
-- each finish 5 µs of 145: also a subquery that is not run is set up.
COALESCE(NULLIF(GREATEST(run.retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = run.id
                                            ORDER BY attempt DESC LIMIT 1)), 2147483647) + 1,
         ((date_part('epoch', clock_timestamp()) * 1000)::bigint % 2147483647)::integer)
