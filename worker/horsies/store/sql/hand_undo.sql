-- by_hand.undo; the row as the action left it, nothing done by hand since, the unique key free where it lives again
-- ($1 actions, $2 their tasks, $3 operation, $4 OS user, $5 OS host, $6 reason)
-- Of an audit that has grown since its last ANALYZE the planner expects one row, and would loop over 500 times 500 of them
-- (230 ms instead of 20). So each action is fetched by itself, and everything else hangs on the arrays, whose length is known.
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
           -- Whoever had claimed it has been told that he lost it.
           claimed_by_worker_id = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_by_worker_id END,
           claimed_at = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_at END,
           started_at = judged.started_at, worker_hostname = judged.worker_hostname, worker_pid = judged.worker_pid,
           worker_process_name = judged.worker_process_name, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($2) AND task.id = judged.target_id
       AND CASE WHEN judged.refusal IS NULL THEN true END  -- as in hand_end.sql
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
