-- by_hand.requeue, release; the row as the person saw it, not PENDING, its unique key free
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
--  $9 OS host, $10 reason, $11 filter; $12 fresh budgets, NULL for one more run, $13 words for attempts cut short)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, claim_expires_at, started_at, completed_at, failed_at,
           retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code, failed_reason,
           -- What undo gives back. A larger one is let go, and undo says so.
           CASE WHEN octet_length(result) <= 65536 THEN result END AS result,
           CASE WHEN octet_length(result) > 65536 THEN true END AS result_left_out,
           worker_hostname, worker_pid, worker_process_name, finalizing_at, unique_key
      FROM horsies_tasks
     WHERE id = ANY ($1)
     ORDER BY id FOR NO KEY UPDATE
), compared AS MATERIALIZED (
    SELECT seen.number, seen.id, seen.fresh_budget, held.status, held.unique_key, held.retry_count, held.max_retries,
           held.claimed_by_worker_id, held.claimed_at, held.started_at, held.worker_hostname, held.worker_pid,
           held.worker_process_name, jsonb_strip_nulls(to_jsonb(held)) AS before,
           COALESCE((SELECT attempt FROM horsies_task_attempts WHERE task_id = held.id
                      ORDER BY attempt DESC LIMIT 1), 0) AS last_attempt,
           held.status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED') AS was_final,
           CASE WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (held.status, held.claimed_by_worker_id, held.claimed_at, held.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR held.status NOT IN ('CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                THEN 'it is ' || held.status
                     || CASE WHEN held.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(held.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || held.retry_count + 1
           END AS difference
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[], $12::integer[]) WITH ORDINALITY
           AS seen (id, status, worker_id, claimed_at, retry_count, fresh_budget, number)
      LEFT JOIN held ON held.id = seen.id
), judged AS MATERIALIZED (
    SELECT compared.*,
           CASE WHEN difference IS NOT NULL THEN difference
                -- Each by its index: as an EXISTS, the planner would read all workflows.
                WHEN (SELECT (SELECT status FROM horsies_workflows WHERE id = node.workflow_id)
                        FROM horsies_workflow_tasks node WHERE node.task_id = compared.id LIMIT 1) = 'CANCELLED'
                THEN 'its workflow is CANCELLED'
                WHEN was_final AND unique_key IS NOT NULL THEN
                     (SELECT 'its unique key is held by the live task ' || other.id
                        FROM horsies_tasks other
                       WHERE other.unique_key = compared.unique_key
                         AND other.status IN ('PENDING', 'CLAIMED', 'RUNNING')
                       UNION ALL
                      -- The last of those that share a key; each is final, so that none is found above.
                      SELECT 'its unique key goes to the selected task ' || twin.id
                        FROM compared twin
                       WHERE twin.unique_key = compared.unique_key AND twin.was_final AND twin.difference IS NULL
                         AND twin.number > compared.number
                       LIMIT 1)
           END AS refusal,
           CASE status WHEN 'RUNNING' THEN GREATEST(retry_count, last_attempt) + 1
                       WHEN 'CLAIMED' THEN retry_count
                       -- The number of the next attempt must be free; it is where the task has not run since its last retry.
                       ELSE GREATEST(retry_count, last_attempt) END AS new_retry_count
      FROM compared
), requeued AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', retry_count = judged.new_retry_count,
           max_retries = CASE WHEN judged.fresh_budget IS NOT NULL THEN judged.new_retry_count + judged.fresh_budget
                              WHEN judged.new_retry_count > judged.retry_count THEN judged.new_retry_count
                              ELSE task.max_retries END,
           enqueued_at = CASE judged.status WHEN 'CLAIMED' THEN task.enqueued_at ELSE statement_timestamp() END,
           next_retry_at = CASE judged.status WHEN 'CLAIMED' THEN task.next_retry_at END,
           -- Past its deadline nobody would start it; whoever requeues it by hand wants it to run.
           good_until = CASE WHEN task.good_until > statement_timestamp() OR judged.status = 'CLAIMED'
                             THEN task.good_until END,
           completed_at = NULL, failed_at = NULL, result = NULL, error_code = NULL, failed_reason = NULL,
           claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL, started_at = NULL,
           worker_pid = NULL, worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL,
           finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($1) AND task.id = judged.id
       -- In a CASE, for of IS NULL the planner expects one row, and would read the array anew for each: 40 ms instead of 6.
       AND CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING judged.number, task.id, task.queue_name, task.retry_count, task.max_retries, task.enqueued_at
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT judged.id, requeued.retry_count, 'WORKER_FAILURE', true,
           COALESCE(judged.started_at, judged.claimed_at, statement_timestamp()), statement_timestamp(),
           'OPERATOR_REQUEUED', $13::text, $13::text, judged.claimed_by_worker_id, judged.worker_hostname, judged.worker_pid,
           judged.worker_process_name
      FROM requeued
      JOIN judged ON judged.number = requeued.number
     WHERE judged.status = 'RUNNING'
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.id, CASE WHEN requeued.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           CASE WHEN requeued.id IS NULL THEN judged.before - 'result' ELSE judged.before END,
           CASE WHEN requeued.id IS NOT NULL
                THEN jsonb_build_object('status', 'PENDING', 'retry_count', requeued.retry_count,
                                        'max_retries', requeued.max_retries, 'enqueued_at', requeued.enqueued_at) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN requeued ON requeued.number = judged.number
     ORDER BY judged.number
), told AS MATERIALIZED (
    SELECT pg_notify('horsies_operator', judged.claimed_by_worker_id)
      FROM requeued
      JOIN judged ON judged.number = requeued.number
     WHERE NOT judged.was_final AND judged.claimed_by_worker_id IS NOT NULL
     GROUP BY judged.claimed_by_worker_id
     UNION ALL
    -- No trigger tells of a task that is PENDING again.
    SELECT pg_notify('task_queue_' || queue_name, 'requeue:' || min(id)) FROM requeued GROUP BY queue_name
)
SELECT judged.number, judged.refusal, requeued.retry_count
  FROM judged
  LEFT JOIN requeued ON requeued.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0
