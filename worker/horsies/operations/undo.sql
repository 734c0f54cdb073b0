-- name: undo_since
-- operations/undo.py, actions on workers, queues, schedules, workflows and nodes; reads only
-- ($1 actions): when the order was given, or the slot that it skips, and by whom the target was acted on since
SELECT action.id,
       COALESCE(action.after_state ->> 'draining_since', action.after_state ->> 'paused_at',
                action.after_state ->> 'skip_slot')::timestamptz AS given_at,
       (SELECT concat('an operator has acted on it since: ', later.verb, ' by ', later.os_user, '@', later.os_host)
          FROM horsies_operator_actions later
         WHERE later.target_kind = action.target_kind AND later.target_id = action.target_id AND later.id > action.id
           AND later.outcome = 'applied'
         ORDER BY later.id DESC LIMIT 1) AS since_then
  FROM horsies_operator_actions action
 WHERE action.id = ANY ($1::bigint[])

-- name: undo_preview
-- operations/undo.py, preview of an undo on tasks; reads only (parameters of `undo_judged`)
WITH /* undo_judged */
SELECT judged.action, judged.refusal, task.task_name, task.queue_name
  FROM judged
  LEFT JOIN horsies_tasks task ON task.id = ANY ($8) AND task.id = judged.target_id

-- name: undo_tasks
-- operations/undo.py, an undo on tasks; the row as the action left it, no operator action since, the unique key free if
-- the task is open again (parameters of `undo_judged`)
WITH /* operation */, /* undo_judged */, restored AS (
    UPDATE horsies_tasks task
       SET status = judged.new_status, queue_name = COALESCE(judged.queue_name, task.queue_name),
           -- Audit rows of older releases, in which no verb changed a priority, do not contain it.
           priority = COALESCE(judged.priority, task.priority),
           retry_count = judged.retry_count, max_retries = judged.max_retries,
           enqueued_at = judged.enqueued_at, next_retry_at = judged.next_retry_at, good_until = judged.good_until,
           completed_at = judged.completed_at, failed_at = judged.failed_at, result = judged.result,
           error_code = judged.error_code, failed_reason = judged.failed_reason,
           -- The worker that had claimed it has been notified that it lost the task.
           claimed_by_worker_id = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_by_worker_id END,
           claimed_at = CASE WHEN judged.old_status <> 'CLAIMED' THEN judged.claimed_at END,
           started_at = judged.started_at, worker_hostname = judged.worker_hostname, worker_pid = judged.worker_pid,
           worker_process_name = judged.worker_process_name, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($8) AND task.id = judged.target_id
       AND CASE WHEN judged.refusal IS NULL THEN true END  -- as in `task_change`
    RETURNING judged.action, task.id, task.queue_name, task.status, task.retry_count
), audited AS (
    SELECT judged.action AS number, 'task' AS kind, judged.target_id AS id, judged.refusal AS detail,
           CASE WHEN restored.id IS NULL THEN 'refused' ELSE 'applied' END AS outcome,
           jsonb_strip_nulls(to_jsonb(present)) AS before,
           CASE WHEN restored.id IS NOT NULL
                THEN jsonb_build_object('status', restored.status, 'retry_count', restored.retry_count) END AS after,
           CASE WHEN judged.verb IS NOT NULL THEN judged.action END AS undoes
      FROM judged
      LEFT JOIN present ON present.id = judged.target_id
      LEFT JOIN restored ON restored.action = judged.action
), /* audit */, woken AS (
    SELECT queue_name, 'requeue' AS notice FROM restored WHERE status = 'PENDING'
)
SELECT judged.action, judged.refusal, restored.retry_count
  FROM judged
  LEFT JOIN restored ON restored.action = judged.action
 WHERE /* queues_notified */

-- name: undo_hold
-- operations/undo.py, before an undo is previewed; PENDING as the operation left it, and could start within the hold; a
-- row that another session has locked is left out, because it is being claimed or changed
-- ($7 and $8 as in `undo_judged`, $9 the hold in seconds)
-- No release of a worker claims a row before its next_retry_at. If the console dies, the hold expires.
WITH /* undo_judged */
UPDATE horsies_tasks task
   SET next_retry_at = statement_timestamp() + $9::float8 * interval '1 s', updated_at = statement_timestamp()
  FROM judged
 WHERE task.id = ANY ($8) AND task.id = judged.target_id
       -- As in `task_change`.
   AND CASE WHEN judged.refusal IS NULL AND task.status = 'PENDING'
            THEN judged.due_at < statement_timestamp() + $9 * interval '1 s' END
RETURNING task.id, judged.waits_until, task.next_retry_at AS held_until

-- name: undo_release
-- operations/undo.py, after an undo that was not made; still held by the same hold; a row that another session has
-- locked is left out ($1 tasks, $2 until when they were held, $3 their next_retry_at before)
WITH locked AS (
    SELECT id FROM horsies_tasks WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), released AS (
    UPDATE horsies_tasks task
       SET next_retry_at = held.waits_until, updated_at = statement_timestamp()
      FROM locked
      JOIN unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS held (id, held_until, waits_until)
           ON held.id = locked.id
     WHERE task.id = ANY ($1) AND task.id = locked.id
       AND CASE WHEN task.status = 'PENDING' THEN task.next_retry_at = held.held_until END
    RETURNING task.queue_name
), woken AS (
    SELECT queue_name, 'retry' AS notice FROM released
)
SELECT /* queues_notified */

-- name: undo_judged
-- fragment: the tasks as they are now, as they were before the action, and why each is not restored; `lock` is
-- `undo_lock`, except in a preview. It does not compare next_retry_at, which a hold changes.
-- ($7 actions, $8 their tasks)
-- If the audit table has grown since its last ANALYZE, the planner expects one row, and would loop over 500 times 500
-- of them (230 ms instead of 20). So each action is fetched separately, and everything else is joined to the arrays,
-- whose length is known.
done AS MATERIALIZED (
    SELECT asked.action, asked.target_id, audit_row.verb, audit_row.after_state,
           audit_row.before_state ? 'result_left_out' AS result_left_out, before.*
      FROM unnest($7::bigint[], $8::text[]) AS asked (action, target_id)
      LEFT JOIN LATERAL (SELECT verb, before_state, after_state FROM horsies_operator_actions
                          WHERE id = asked.action LIMIT 1) audit_row ON true
      LEFT JOIN LATERAL (
           SELECT status AS old_status, queue_name, priority, retry_count, max_retries, enqueued_at, next_retry_at,
                  good_until, completed_at, failed_at, result, error_code, failed_reason, claimed_by_worker_id,
                  claimed_at, started_at, worker_hostname, worker_pid, worker_process_name
             FROM jsonb_populate_record(NULL::horsies_tasks, audit_row.before_state)) before ON true
), present AS (
    SELECT id, status, queue_name, priority, claimed_by_worker_id, claimed_at, started_at, failed_at, retry_count,
           max_retries, enqueued_at, next_retry_at, good_until, error_code, task_name, unique_key, is_workflow_task
      FROM horsies_tasks
     WHERE id = ANY ($8)
     /* lock */
), compared AS MATERIALIZED (
    SELECT done.*, done.target_id AS id, present.task_name, present.unique_key, present.next_retry_at AS waits_until,
           GREATEST(present.enqueued_at, present.next_retry_at) AS due_at,
           CASE WHEN done.old_status IN /* ended_tasks */ THEN done.old_status
                ELSE 'PENDING' END AS new_status,
           CASE WHEN done.verb IS NULL THEN 'its audit row is gone'
                WHEN present.id IS NULL THEN 'its row was deleted'
                WHEN (SELECT max(id) FROM horsies_operator_actions
                       WHERE target_kind = 'task' AND target_id = done.target_id AND outcome = 'applied') > done.action
                THEN (SELECT concat('an operator has acted on it since: ', verb, ' by ', os_user, '@', os_host)
                        FROM horsies_operator_actions
                       WHERE target_kind = 'task' AND target_id = done.target_id AND outcome = 'applied'
                       ORDER BY id DESC LIMIT 1)
                WHEN (present.status, present.retry_count, present.claimed_at, present.started_at, present.failed_at)
                     IS DISTINCT FROM (done.after_state ->> 'status', (done.after_state ->> 'retry_count')::integer,
                                       (done.after_state ->> 'claimed_at')::timestamptz,
                                       (done.after_state ->> 'started_at')::timestamptz,
                                       (done.after_state ->> 'failed_at')::timestamptz)
                THEN /* present_state */
                WHEN done.after_state ? 'queue_name'
                     AND (present.queue_name, present.priority)
                         IS DISTINCT FROM (done.after_state ->> 'queue_name',
                                           (done.after_state ->> 'priority')::integer)
                     OR done.after_state ? 'enqueued_at'
                     AND present.enqueued_at IS DISTINCT FROM (done.after_state ->> 'enqueued_at')::timestamptz
                THEN 'its queue, its priority or its time has changed since'
                WHEN done.result_left_out THEN 'its result had more than 64 kB and was not kept'
                -- The task has ended, and its node has that outcome.
                WHEN present.is_workflow_task AND done.old_status <> present.status
                     AND present.status IN ('FAILED', 'CANCELLED', 'EXPIRED')
                     AND EXISTS (SELECT FROM horsies_workflow_tasks WHERE task_id = present.id
                                    AND status IN /* ended_nodes */)
                THEN 'its workflow has gone on without it'
           END AS difference
      FROM done
      LEFT JOIN present ON present.id = done.target_id
), judged AS MATERIALIZED (
    SELECT compared.*,
           CASE WHEN difference IS NOT NULL THEN difference
                WHEN new_status = 'PENDING' AND unique_key IS NOT NULL THEN /* key_holder */
           END AS refusal
      FROM compared
)

-- name: undo_lock
-- fragment of `undo_judged`, in the order of every statement that changes tasks
ORDER BY id FOR NO KEY UPDATE
