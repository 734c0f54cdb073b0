-- name: op_end
-- operator_actions.fail, cancel, expire; the row as the operator saw it, not final; fail: or interrupted; expire:
-- PENDING and past good_until
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
-- $9 OS host, $10 reason, $11 filter; $12 new status, $13 result, $14 its error code, $15 that of the attempt,
-- $16 words)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, claim_expires_at, started_at, completed_at, failed_at,
           retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code, failed_reason,
           worker_hostname, worker_pid, worker_process_name, finalizing_at,
           -- Only interrupted tasks have one. A larger result is not kept, and undo reports that.
           CASE WHEN status = 'FAILED' AND octet_length(result) <= 65536 THEN result END AS result,
           CASE WHEN status = 'FAILED' AND octet_length(result) > 65536 THEN true END AS result_left_out
      FROM horsies_tasks
     WHERE id = ANY ($1)
     -- Every statement locks in this order, so that no two deadlock. After a wait it reads the row as the other session
     -- left it, and can report that.
     ORDER BY id FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT seen.number, seen.id, held.status, held.queue_name, held.claimed_by_worker_id, held.started_at,
           jsonb_strip_nulls(to_jsonb(held)) AS before,
           CASE WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (held.status, held.claimed_by_worker_id, held.claimed_at, held.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR held.status NOT IN ('PENDING', 'CLAIMED', 'RUNNING')
                        -- An interrupted task needs an operator's decision: it runs again or has failed for good.
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
       -- In a CASE, because for IS NULL the planner expects one row, and would read the array anew for each: 40 ms
       -- instead of 6.
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
    -- There is room under a cap again.
    SELECT pg_notify('task_queue_' || queue_name, 'capacity:' || min(id))
      FROM ended
     WHERE before_status IN ('CLAIMED', 'RUNNING')
     GROUP BY queue_name
)
SELECT judged.number, judged.refusal, ended.retry_count
  FROM judged
  LEFT JOIN ended ON ended.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0

-- name: op_requeue
-- operator_actions.requeue, release; the row as the operator saw it, not PENDING, its unique key free
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
-- $9 OS host, $10 reason, $11 filter; $12 fresh budgets, NULL for one more run, $13 words for attempts cut short)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, claim_expires_at, started_at, completed_at, failed_at,
           retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code, failed_reason,
           -- The result that undo restores. A larger one is not kept, and undo reports that.
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
                      -- The last of the selected tasks that share a key; each is final, so the check above finds none
                      -- of them.
                      SELECT 'its unique key goes to the selected task ' || twin.id
                        FROM compared twin
                       WHERE twin.unique_key = compared.unique_key AND twin.was_final AND twin.difference IS NULL
                         AND twin.number > compared.number
                       LIMIT 1)
           END AS refusal,
           CASE status WHEN 'RUNNING' THEN GREATEST(retry_count, last_attempt) + 1
                       WHEN 'CLAIMED' THEN retry_count
                       -- The number of the next attempt must be unused; it is if the task has not run since its last
                       -- retry.
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
           -- No worker would start it past its deadline, but the operator who requeues it wants it to run.
           good_until = CASE WHEN task.good_until > statement_timestamp() OR judged.status = 'CLAIMED'
                             THEN task.good_until END,
           completed_at = NULL, failed_at = NULL, result = NULL, error_code = NULL, failed_reason = NULL,
           claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL, started_at = NULL,
           worker_pid = NULL, worker_hostname = NULL, worker_process_name = NULL, finalizing_at = NULL,
           finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($1) AND task.id = judged.id
       -- In a CASE, because for IS NULL the planner expects one row, and would read the array anew for each: 40 ms
       -- instead of 6.
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
    -- No trigger notifies of a task that is PENDING again.
    SELECT pg_notify('task_queue_' || queue_name, 'requeue:' || min(id)) FROM requeued GROUP BY queue_name
)
SELECT judged.number, judged.refusal, requeued.retry_count
  FROM judged
  LEFT JOIN requeued ON requeued.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0

-- name: op_hurry
-- operator_actions.retry_now; the row as the operator saw it, PENDING and not due
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
-- $9 OS host, $10 reason, $11 filter)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, started_at, failed_at, retry_count, max_retries,
           enqueued_at, next_retry_at, good_until
      FROM horsies_tasks
     WHERE id = ANY ($1)
     ORDER BY id FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT seen.number, seen.id, jsonb_strip_nulls(to_jsonb(held)) AS before,
           CASE WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (held.status, held.claimed_by_worker_id, held.claimed_at, held.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR held.status <> 'PENDING'
                THEN 'it is ' || held.status
                     || CASE WHEN held.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(held.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || held.retry_count + 1
                WHEN GREATEST(held.enqueued_at, held.next_retry_at) <= statement_timestamp() THEN 'it is due already'
           END AS refusal
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[]) WITH ORDINALITY
           AS seen (id, status, worker_id, claimed_at, retry_count, number)
      LEFT JOIN held ON held.id = seen.id
), hurried AS (
    UPDATE horsies_tasks task
       SET enqueued_at = LEAST(task.enqueued_at, statement_timestamp()),
           -- LEAST of NULL and a time is the time: a delayed send would look like a retry.
           next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL
                                THEN LEAST(task.next_retry_at, statement_timestamp()) END,
           updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($1) AND task.id = judged.id
       -- In a CASE, because for IS NULL the planner expects one row, and would read the array anew for each: 40 ms
       -- instead of 6.
       AND CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING judged.number, task.id, task.queue_name, task.retry_count, task.enqueued_at, task.claimed_at,
              task.started_at, task.failed_at
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.id, CASE WHEN hurried.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           judged.before,
           CASE WHEN hurried.id IS NOT NULL
                THEN jsonb_strip_nulls(jsonb_build_object(
                         'status', 'PENDING', 'retry_count', hurried.retry_count, 'enqueued_at', hurried.enqueued_at,
                         'claimed_at', hurried.claimed_at, 'started_at', hurried.started_at, 'failed_at', hurried.failed_at)) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN hurried ON hurried.number = judged.number
     ORDER BY judged.number
), told AS MATERIALIZED (
    -- No trigger notifies of a task that falls due.
    SELECT pg_notify('task_queue_' || queue_name, 'retry:' || min(id)) FROM hurried GROUP BY queue_name
)
SELECT judged.number, judged.refusal, hurried.retry_count
  FROM judged
  LEFT JOIN hurried ON hurried.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0

-- name: op_sources
-- operator_actions.lock_sources, first half of a rerun; locks the rows until the copies are stored ($1 tasks)
SELECT id, task_name, queue_name, priority, args, kwargs, task_options, unique_key,
       CASE WHEN good_until > statement_timestamp() THEN good_until END AS good_until,
       -- The clock of the server: the fingerprint of a copy contains the time of its send.
       statement_timestamp() AS now
  FROM horsies_tasks
 WHERE id = ANY ($1::text[])
 ORDER BY id
   FOR NO KEY UPDATE

-- name: op_rerun
-- operator_actions.rerun, second half; the original as the operator saw it, final, no action on it since; the unique
-- key free
-- ($1 originals, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb,
-- $8 OS user, $9 OS host, $10 reason, $11 filter; $12 newest actions as seen, $13 ids of the copies, $14 fingerprints,
-- $15 args, $16 kwargs, $17 task options, $18 max retries, $19 good until, $20 sent at)
-- In the same transaction as `op_sources`, whose locks let it see an operator action that was committed a moment
-- before.
WITH compared AS MATERIALIZED (
    SELECT seen.*, task.task_name, task.queue_name, task.priority, task.unique_key, task.status AS status_now,
           CASE WHEN task.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (task.status, task.claimed_by_worker_id, task.claimed_at, task.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR task.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                THEN 'it is ' || task.status
                     || CASE WHEN task.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(task.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || task.retry_count + 1
           END AS difference
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[], $12::bigint[], $13::text[],
                  $14::text[], $15::text[], $16::text[], $17::text[], $18::integer[], $19::timestamptz[],
                  $20::timestamptz[]) WITH ORDINALITY
           AS seen (original, status, worker_id, claimed_at, retry_count, last_action, copy, fingerprint, args, kwargs,
                    task_options, max_retries, good_until, sent_at, number)
      LEFT JOIN horsies_tasks task ON task.id = seen.original
), judged AS MATERIALIZED (
    SELECT compared.*,
           CASE WHEN difference IS NOT NULL THEN difference
                ELSE COALESCE(
                    (SELECT concat('it was acted on by hand meanwhile: ', verb, ' by ', os_user, '@', os_host)
                       FROM horsies_operator_actions
                      WHERE target_kind = 'task' AND target_id = compared.original AND outcome = 'applied'
                        AND id > COALESCE(compared.last_action, 0)
                      ORDER BY id DESC LIMIT 1),
                    (SELECT 'its unique key is held by the live task ' || other.id
                       FROM horsies_tasks other
                      WHERE other.unique_key = compared.unique_key
                        AND other.status IN ('PENDING', 'CLAIMED', 'RUNNING')),
                    (SELECT 'its unique key goes to the copy of ' || twin.original
                       FROM compared twin
                      WHERE twin.unique_key = compared.unique_key AND twin.difference IS NULL
                        AND twin.number > compared.number
                      LIMIT 1))
           END AS refusal
      FROM compared
), copied AS (
    INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                               good_until, unique_key, enqueued_at, max_retries, rerun_of)
    SELECT copy, task_name, fingerprint, sent_at, queue_name, priority, args, kwargs, task_options, good_until,
           unique_key, statement_timestamp(), max_retries, original
      FROM judged
     WHERE refusal IS NULL
    RETURNING id
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.original, CASE WHEN copied.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           jsonb_strip_nulls(jsonb_build_object('status', judged.status_now)),
           CASE WHEN copied.id IS NOT NULL THEN jsonb_build_object('new_task_id', copied.id) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN copied ON copied.id = judged.copy
     ORDER BY judged.number
)
SELECT judged.number, judged.refusal, 0 AS retry_count
  FROM judged
  LEFT JOIN copied ON copied.id = judged.copy

-- name: op_undo
-- operator_actions.undo; the row as the action left it, no operator action since, the unique key free if the task is
-- open again
-- ($1 actions, $2 their tasks, $3 operation, $4 OS user, $5 OS host, $6 reason)
-- If the audit table has grown since its last ANALYZE, the planner expects one row, and would loop over 500 times 500
-- of them (230 ms instead of 20). So each action is fetched by itself, and everything else is joined to the arrays,
-- whose length is known.
WITH deed AS MATERIALIZED (
    SELECT asked.action, asked.target_id, trace.verb, trace.after_state,
           trace.before_state ? 'result_left_out' AS result_left_out, before.*
      FROM unnest($1::bigint[], $2::text[]) AS asked (action, target_id)
      LEFT JOIN LATERAL (SELECT verb, before_state, after_state FROM horsies_operator_actions
                          WHERE id = asked.action LIMIT 1) trace ON true
      LEFT JOIN LATERAL (
           SELECT status AS old_status, queue_name, retry_count, max_retries, enqueued_at, next_retry_at, good_until,
                  completed_at, failed_at, result, error_code, failed_reason, claimed_by_worker_id, claimed_at, started_at,
                  worker_hostname, worker_pid, worker_process_name
             FROM jsonb_populate_record(NULL::horsies_tasks, trace.before_state)) before ON true
), held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, started_at, failed_at, retry_count, max_retries,
           enqueued_at, next_retry_at, good_until, error_code, unique_key, is_workflow_task
      FROM horsies_tasks
     WHERE id = ANY ($2)
     ORDER BY id FOR NO KEY UPDATE
), compared AS MATERIALIZED (
    SELECT deed.*, held.unique_key, jsonb_strip_nulls(to_jsonb(held)) AS before_undo,
           CASE WHEN deed.old_status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED') THEN deed.old_status
                ELSE 'PENDING' END AS new_status,
           CASE WHEN deed.verb IS NULL THEN 'its audit row is gone'
                WHEN deed.verb = 'rerun'
                THEN 'the copy is a task of its own: cancel ' || (deed.after_state ->> 'new_task_id') || ' instead'
                WHEN deed.verb = 'release' THEN 'a claim cannot be given back to a worker'
                WHEN deed.verb = 'expire' THEN 'its good_until has passed: requeue it to run it all the same'
                WHEN deed.verb NOT IN ('requeue', 'fail', 'cancel', 'retry-now') THEN 'there is no way back from ' || deed.verb
                WHEN deed.old_status = 'RUNNING' THEN 'its run was taken away, and that attempt is history'
                WHEN deed.verb = 'requeue' AND deed.old_status = 'CLAIMED' THEN 'a claim cannot be given back to a worker'
                WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (SELECT max(id) FROM horsies_operator_actions
                       WHERE target_kind = 'task' AND target_id = deed.target_id AND outcome = 'applied') > deed.action
                THEN (SELECT concat('it was acted on by hand since: ', verb, ' by ', os_user, '@', os_host)
                        FROM horsies_operator_actions
                       WHERE target_kind = 'task' AND target_id = deed.target_id AND outcome = 'applied'
                       ORDER BY id DESC LIMIT 1)
                WHEN (held.status, held.retry_count, held.claimed_at, held.started_at, held.failed_at)
                     IS DISTINCT FROM (deed.after_state ->> 'status', (deed.after_state ->> 'retry_count')::integer,
                                       (deed.after_state ->> 'claimed_at')::timestamptz,
                                       (deed.after_state ->> 'started_at')::timestamptz,
                                       (deed.after_state ->> 'failed_at')::timestamptz)
                THEN 'it is ' || held.status
                     || CASE WHEN held.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(held.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || held.retry_count + 1
                WHEN deed.result_left_out THEN 'its result had more than 64 kB and was not kept'
                WHEN held.is_workflow_task AND deed.verb IN ('fail', 'cancel') AND deed.old_status <> 'FAILED'
                     AND EXISTS (SELECT FROM horsies_workflow_tasks WHERE task_id = held.id
                                    AND status IN ('COMPLETED', 'FAILED', 'SKIPPED'))
                THEN 'its workflow has gone on without it'
           END AS difference
      FROM deed
      LEFT JOIN held ON held.id = deed.target_id
), judged AS MATERIALIZED (
    SELECT compared.*,
           CASE WHEN difference IS NOT NULL THEN difference
                WHEN new_status = 'PENDING' AND unique_key IS NOT NULL THEN
                     (SELECT 'its unique key is held by the live task ' || other.id
                        FROM horsies_tasks other
                       WHERE other.unique_key = compared.unique_key AND other.id <> compared.target_id
                         AND other.status IN ('PENDING', 'CLAIMED', 'RUNNING'))
           END AS refusal
      FROM compared
), restored AS (
    UPDATE horsies_tasks task
       SET status = judged.new_status, retry_count = judged.retry_count, max_retries = judged.max_retries,
           enqueued_at = judged.enqueued_at, next_retry_at = judged.next_retry_at, good_until = judged.good_until,
           completed_at = judged.completed_at, failed_at = judged.failed_at, result = judged.result,
           error_code = judged.error_code, failed_reason = judged.failed_reason,
           -- The worker that had claimed it has been notified that it lost the task.
           claimed_by_worker_id = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_by_worker_id END,
           claimed_at = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_at END,
           started_at = judged.started_at, worker_hostname = judged.worker_hostname, worker_pid = judged.worker_pid,
           worker_process_name = judged.worker_process_name, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($2) AND task.id = judged.target_id
       AND CASE WHEN judged.refusal IS NULL THEN true END  -- as in `op_end`
    RETURNING judged.action, task.id, task.queue_name, task.status, task.retry_count
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, undoes)
    SELECT $3::uuid, 'undo', 'task', judged.target_id, CASE WHEN restored.id IS NULL THEN 'refused' ELSE 'applied' END,
           judged.refusal, judged.before_undo,
           CASE WHEN restored.id IS NOT NULL
                THEN jsonb_build_object('status', restored.status, 'retry_count', restored.retry_count) END,
           $4::text, $5::text, $6::text, CASE WHEN judged.verb IS NOT NULL THEN judged.action END
      FROM judged
      LEFT JOIN restored ON restored.action = judged.action
     ORDER BY judged.action
), told AS MATERIALIZED (
    SELECT pg_notify('task_queue_' || queue_name, 'requeue:' || min(id))
      FROM restored WHERE status = 'PENDING' GROUP BY queue_name
)
SELECT judged.action, judged.target_id, judged.refusal, restored.retry_count
  FROM judged
  LEFT JOIN restored ON restored.action = judged.action
 WHERE (SELECT count(*) FROM told) >= 0
