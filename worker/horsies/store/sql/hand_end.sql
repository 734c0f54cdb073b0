-- by_hand.fail, cancel, expire; the row as the person saw it, not final; fail: or interrupted; expire: PENDING and past
-- good_until
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
--  $9 OS host, $10 reason, $11 filter; $12 new status, $13 result, $14 its error code, $15 that of the attempt, $16 words)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, claim_expires_at, started_at, completed_at, failed_at,
           retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code, failed_reason,
           worker_hostname, worker_pid, worker_process_name, finalizing_at,
           -- Only what was interrupted has one. A larger one is let go, and undo says so.
           CASE WHEN status = 'FAILED' AND octet_length(result) <= 65536 THEN result END AS result,
           CASE WHEN status = 'FAILED' AND octet_length(result) > 65536 THEN true END AS result_left_out
      FROM horsies_tasks
     WHERE id = ANY ($1)
     -- Everybody locks in this order, so that no two wait for each other. Who waits here reads what the other has made of
     -- the row, and can say so.
     ORDER BY id FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT seen.number, seen.id, held.status, held.queue_name, held.claimed_by_worker_id, held.started_at,
           jsonb_strip_nulls(to_jsonb(held)) AS before,
           CASE WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (held.status, held.claimed_by_worker_id, held.claimed_at, held.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR held.status NOT IN ('PENDING', 'CLAIMED', 'RUNNING')
                        -- It waits for a person to say whether it runs again or has failed for good.
                        AND NOT COALESCE($12::text = 'FAILED' AND held.status = 'FAILED'
                                         AND held.error_code = 'TASK_INTERRUPTED', false)
                THEN 'it is ' || held.status
                     || CASE WHEN held.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(held.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || held.retry_count + 1
                WHEN $12::text = 'EXPIRED' AND NOT (held.status = 'PENDING'
                                              AND COALESCE(held.good_until <= statement_timestamp(), false))
                THEN 'it is ' || held.status || ', and its good_until has not passed'
           END AS refusal
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[]) WITH ORDINALITY
           AS seen (id, status, worker_id, claimed_at, retry_count, number)
      LEFT JOIN held ON held.id = seen.id
), ended AS (
    UPDATE horsies_tasks task
       SET status = $12::text, claimed = false, claim_expires_at = NULL,
           failed_at = CASE judged.status WHEN 'FAILED' THEN task.failed_at ELSE statement_timestamp() END,
           result = $13::text, error_code = $14::text, failed_reason = $16::text,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($1) AND task.id = judged.id
       -- In a CASE, for of IS NULL the planner expects one row, and would read the array anew for each: 40 ms instead of 6.
       AND CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING judged.number, task.id, judged.status AS before_status, task.status, task.queue_name, task.retry_count,
              task.claimed_by_worker_id, task.claimed_at, task.started_at, task.failed_at, task.worker_hostname,
              task.worker_pid, task.worker_process_name
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT id,
           GREATEST(retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = ended.id
                                   ORDER BY attempt DESC LIMIT 1)) + 1,
           'WORKER_FAILURE', false, COALESCE(started_at, claimed_at, failed_at), failed_at, $15::text, $16::text, $16::text,
           claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name
      FROM ended
     WHERE before_status = 'RUNNING'
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.id, CASE WHEN ended.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           CASE WHEN ended.id IS NULL THEN judged.before - 'result' ELSE judged.before END,
           CASE WHEN ended.id IS NOT NULL
                THEN jsonb_strip_nulls(jsonb_build_object(
                         'status', ended.status, 'retry_count', ended.retry_count, 'claimed_at', ended.claimed_at,
                         'started_at', ended.started_at, 'failed_at', ended.failed_at)) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN ended ON ended.number = judged.number
     ORDER BY judged.number
), told AS MATERIALIZED (
    SELECT pg_notify('horsies_operator', claimed_by_worker_id)
      FROM ended
     WHERE before_status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
     UNION ALL
    -- Under a cap there is room again.
    SELECT pg_notify('task_queue_' || queue_name, 'capacity:' || min(id))
      FROM ended
     WHERE before_status IN ('CLAIMED', 'RUNNING')
     GROUP BY queue_name
)
SELECT judged.number, judged.refusal, ended.retry_count
  FROM judged
  LEFT JOIN ended ON ended.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0
