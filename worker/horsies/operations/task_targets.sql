-- name: task_refusals
-- operations/task_targets.py, preview of a verb with a refusal of its own; reads only
-- ($1 tasks, $2 the value that they would get, if the verb gives one)
-- It compares no row with what was seen, because that has just been read: the preview of 10 000 rows
-- takes 50 ms, and 100 with that comparison. For the same reason every audit row counts as seen.
WITH compared AS (
    SELECT present.id, /* task_columns */, 9223372036854775807 AS last_action, NULL::text AS difference
      FROM horsies_tasks present
     WHERE present.id = ANY ($1::text[])
), judged AS (
    SELECT id, /* refusal */ AS refusal FROM compared
)
SELECT id, refusal FROM judged WHERE refusal IS NOT NULL

-- name: task_last_actions
-- operations/task_targets.py, preview of a verb that leaves its task's row as it is; reads only ($1 tasks)
SELECT asked.id, newest.id
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT id FROM horsies_operator_actions
                      WHERE target_kind = 'task' AND target_id = asked.id AND outcome = 'applied'
                      ORDER BY id DESC LIMIT 1) newest

-- name: task_workflows
-- operations/task_targets.py, preview; reads only: the workflows of these tasks ($1 tasks)
SELECT node.task_id, workflow.id, workflow.name
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_workflow_tasks node ON node.task_id = asked.id
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id

-- name: task_change
-- operations/task_targets.py, the change of every verb that changes tasks; each row is as the operator saw it, in a
-- state that the verb changes, and not refused by the verb
-- (parameters of `judged`, $15 error code of the attempts, $16 words, and from $17 on those of the verb)
-- `judged`, which follows, locks the rows and compares them with what the operator saw. The verb's parts are in
-- verbs/tasks.sql: `requeue_refusal` and the other refusals say why a row is not changed; `requeue_sets` and the others
-- are the SET. What other statements use, too, is in fragments.sql of operations/ (`operation`, `audit`, `present_state`,
-- `key_taken`) and of the engine (`history`, `back_in_queue`, the notifications).
WITH /* operation */, /* judged */, changed AS (
    UPDATE horsies_tasks task
       SET /* sets */, updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($7) AND task.id = judged.id
       -- In a CASE, because for IS NULL the planner expects one row, and would read the array anew for each: 40 ms
       -- instead of 6.
       AND CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING judged.number, task.id, task.status, task.queue_name, task.priority, task.retry_count, task.max_retries,
              task.enqueued_at, task.claimed_at, task.started_at, task.failed_at
), runs AS (
    -- A run that is taken from its worker leaves an attempt.
    SELECT run.id, run.retry_count, 'WORKER_FAILURE' AS outcome, changed.status = 'PENDING' AS will_retry,
           COALESCE(run.started_at, run.claimed_at, statement_timestamp()) AS started_at,
           statement_timestamp() AS finished_at, $15::text AS error_code, $16::text AS error_message,
           $16::text AS failed_reason, run.claimed_by_worker_id AS worker_id, run.worker_hostname,
           run.worker_pid, run.worker_process_name, NULL AS output, run.enqueued_at
      FROM changed
      JOIN judged run ON run.number = changed.number
     WHERE run.status = 'RUNNING'
), /* history */, audited AS (
    SELECT judged.number, 'task' AS kind, judged.id, NULL::bigint AS undoes, judged.refusal AS detail,
           CASE WHEN changed.id IS NULL THEN 'refused' ELSE 'applied' END AS outcome,
           -- Undo restores the result; a row that is not changed keeps it.
           jsonb_strip_nulls(to_jsonb(present)) - CASE WHEN changed.id IS NULL THEN 'result' ELSE '' END AS before,
           CASE WHEN changed.status = 'PENDING'
                THEN jsonb_strip_nulls(jsonb_build_object(
                         'status', changed.status, 'queue_name', changed.queue_name, 'priority', changed.priority,
                         'retry_count', changed.retry_count, 'max_retries', changed.max_retries,
                         'enqueued_at', changed.enqueued_at, 'claimed_at', changed.claimed_at,
                         'started_at', changed.started_at, 'failed_at', changed.failed_at))
                WHEN changed.id IS NOT NULL
                THEN jsonb_strip_nulls(jsonb_build_object(
                         'status', changed.status, 'retry_count', changed.retry_count, 'claimed_at', changed.claimed_at,
                         'started_at', changed.started_at, 'failed_at', changed.failed_at)) END AS after
      FROM judged
      LEFT JOIN present ON present.id = judged.id
      LEFT JOIN changed ON changed.number = judged.number
), /* audit */, taken AS (
    SELECT judged.claimed_by_worker_id AS worker_id
      FROM changed
      JOIN judged ON judged.number = changed.number
     WHERE judged.status IN /* tasks_in_flight */
), woken AS (
    SELECT changed.queue_name,
           CASE WHEN changed.status <> 'PENDING' THEN 'capacity:operator'
                WHEN judged.status = 'PENDING' THEN 'retry' ELSE 'requeue' END AS notice
      FROM changed
      JOIN judged ON judged.number = changed.number
     WHERE changed.status = 'PENDING' OR judged.status IN /* tasks_in_flight */
)
SELECT judged.number, judged.refusal, changed.id, changed.status, changed.retry_count
  FROM judged
  LEFT JOIN changed ON changed.number = judged.number
 WHERE /* workers_notified */ AND /* queues_notified */

-- name: judged
-- fragment: the tasks as they are now, locked, and why each is not changed
-- ($1 to $6 as in `operation`; $7 tasks, and as seen: $8 statuses, $9 owners, $10 claimed at, $11 retry counts, $12 error
-- codes, $13 newest audit rows; $14 the states that the verb changes; `refusal` is that of the verb)
present AS (
    SELECT id, task_name, status, queue_name, priority, claimed_by_worker_id, claimed_at, claim_expires_at, started_at,
           completed_at, failed_at, retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code,
           failed_reason, worker_hostname, worker_pid, worker_process_name, finalizing_at, unique_key,
           -- The result that undo restores. A larger one is not kept, and undo reports that.
           CASE WHEN octet_length(result) <= 65536 THEN result END AS result,
           CASE WHEN octet_length(result) > 65536 THEN true END AS result_left_out
      FROM horsies_tasks
     WHERE id = ANY ($7)
       -- Every statement locks in this order, so that no two deadlock; after a wait it reads the row as the other session
       -- left it, and can report that.
     ORDER BY id FOR NO KEY UPDATE
), compared AS (
    SELECT seen.number, seen.id, seen.last_action, /* task_columns */, present.retry_count, present.max_retries,
           present.claimed_by_worker_id, present.claimed_at, present.started_at,
           present.worker_hostname, present.worker_pid, present.worker_process_name,
           CASE WHEN present.status NOT IN ('PENDING', 'CLAIMED')
                THEN COALESCE((SELECT attempt FROM horsies_task_attempts
                                WHERE task_id = present.id ORDER BY attempt DESC LIMIT 1), 0) END AS last_attempt,
           CASE WHEN present.id IS NULL THEN 'its row was deleted'
                WHEN (present.status, present.claimed_by_worker_id, present.claimed_at, present.retry_count,
                      present.error_code)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count, seen.error_code)
                     OR present.status <> ALL ($14::text[])
                THEN /* present_state */
           END AS difference
      FROM unnest($7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::integer[], $12::text[], $13::bigint[])
           WITH ORDINALITY AS seen (id, status, worker_id, claimed_at, retry_count, error_code, last_action, number)
      LEFT JOIN present ON present.id = seen.id
), judged AS MATERIALIZED (
    SELECT compared.*, CASE WHEN difference IS NOT NULL THEN difference ELSE /* refusal */ END AS refusal
      FROM compared
)

-- name: task_columns
-- fragment: what a verb's refusal may ask of a task, besides its id, `last_action` and `difference`
present.task_name, present.status, present.queue_name, present.priority, present.unique_key, present.enqueued_at,
present.next_retry_at, present.good_until,
present.status IN /* ended_tasks */ AS was_final

-- name: task_ended
-- fragment: the SET of the verbs that end a task ($17 new status, $18 result, $19 its error code)
status = $17::text, claimed = false, claim_expires_at = NULL, result = $18::text, error_code = $19::text,
failed_at = CASE judged.status WHEN 'FAILED' THEN task.failed_at ELSE statement_timestamp() END,
failed_reason = $16::text, finalizing_at = NULL, finalizing_by_worker_id = NULL
