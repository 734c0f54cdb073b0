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

-- name: task_refusals
-- operations/task_targets.py, preview of a verb with a refusal of its own; reads only ($1 tasks, $2 the value that they would
-- get, if the verb gives one)
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

-- name: task_change
-- operations/task_targets.py, the change of every verb that changes tasks; each row is as the operator saw it, in a state that
-- the verb changes, and not refused by the verb
-- (parameters of `judged`, $15 error code of the attempts, $16 words, and from $17 on those of the verb)
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

-- name: task_ended
-- fragment: the SET of the verbs that end a task ($17 new status, $18 result, $19 its error code)
status = $17::text, claimed = false, claim_expires_at = NULL, result = $18::text, error_code = $19::text,
failed_at = CASE judged.status WHEN 'FAILED' THEN task.failed_at ELSE statement_timestamp() END,
failed_reason = $16::text, finalizing_at = NULL, finalizing_by_worker_id = NULL
