-- finishing.finish, for what is to run again; the token and RUNNING; of a failure also: budget left, due before good_until
-- ($1 worker, $2 tasks, $3 claimed at, $4 delays in s, NULL for an interrupt, $5 error codes, $6 error messages,
--  $7 failed reasons)
WITH requeued AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', retry_count = task.retry_count + 1,
           -- An interrupt is nobody's fault: it takes a number, not a try.
           max_retries = task.max_retries + (token.delay_s IS NULL)::integer,
           enqueued_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.enqueued_at),
           next_retry_at = COALESCE(statement_timestamp() + token.delay_s * interval '1 s', task.next_retry_at),
           result = NULL, error_code = NULL, failed_reason = NULL,
           claimed_at = NULL, claimed_by_worker_id = NULL, started_at = NULL, worker_pid = NULL,
           worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[], $4::double precision[], $5::text[], $6::text[], $7::text[])
           WITH ORDINALITY AS token (id, claimed_at, delay_s, error_code, error_message, failed_reason, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                THEN token.delay_s IS NULL
                     OR task.retry_count < task.max_retries
                        AND (task.good_until IS NULL
                             OR task.good_until > statement_timestamp() + token.delay_s * interval '1 s') END
    RETURNING task.id, task.queue_name, task.retry_count, task.enqueued_at, token.number, token.claimed_at, token.error_code,
              token.error_message, token.failed_reason, token.delay_s IS NULL AS interrupted
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT requeued.id,
           GREATEST(retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = requeued.id
                                   ORDER BY attempt DESC LIMIT 1) + 1),
           CASE WHEN interrupted THEN 'WORKER_FAILURE' ELSE 'FAILED' END, true,
           COALESCE(before.started_at, claimed_at), statement_timestamp(),
           COALESCE(error_code, CASE WHEN interrupted THEN 'TASK_INTERRUPTED' END), error_message, failed_reason, $1,
           before.worker_hostname, before.worker_pid, before.worker_process_name
      FROM requeued
           -- A statement does not see what it changes: here is the row with all that the task has forgotten above.
     CROSS JOIN LATERAL (SELECT started_at, worker_hostname, worker_pid, worker_process_name
                           FROM horsies_tasks WHERE id = requeued.id LIMIT 1) before
)
SELECT number, enqueued_at
  FROM requeued
       -- What was interrupted is due now, and this worker is about to stop: once for each queue, others are told.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:interrupted'))
          FROM (SELECT DISTINCT queue_name AS name FROM requeued
                 WHERE interrupted AND octet_length(queue_name) <= 52) queue) >= 0
