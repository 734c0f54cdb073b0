-- name: task_change
-- verbs/tasks.py, the change of every verb that changes tasks; each row is as the operator saw it, in a state that the
-- verb changes, and not refused by the verb
-- (parameters of `judged`, $15 error code of the attempts, $16 words, and from $17 on those of the verb)
-- Its parts follow in this file: `judged` locks the rows and compares them with what the operator saw; `requeue_refusal`
-- and the other refusals say why a row is not changed; `requeue_sets` and the others are the SET. What other statements
-- use, too, is in fragments.sql of operations/ (`operation`, `audit`, `present_state`, `key_taken`) and of the engine
-- (`history`, `back_in_queue`, the notifications).
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

-- name: requeue_refusal
-- fragment of `judged`
COALESCE(
    -- Each by its index: as an EXISTS, the planner would read all workflows.
    (SELECT (SELECT 'its workflow ' || name || ' is CANCELLED' FROM horsies_workflows
              WHERE id = node.workflow_id AND status = 'CANCELLED')
       FROM horsies_workflow_tasks node WHERE node.task_id = compared.id LIMIT 1),
    /* key_taken */)

-- name: requeue_sets
-- fragment of `task_change` ($17 the retries that are granted to each task, NULL for one more run)
(retry_count, max_retries) =
    (SELECT run.number,
            CASE WHEN $17::integer[] IS NOT NULL THEN LEAST(run.number::bigint + ($17::integer[])[judged.number], 2147483647)::integer
                 WHEN run.number > judged.retry_count THEN run.number ELSE judged.max_retries END
       FROM (VALUES (CASE judged.status WHEN 'CLAIMED' THEN judged.retry_count
                                        -- The number of the next attempt must be unused; it is if the task has not run
                                        -- since its last retry.
                                        WHEN 'RUNNING' THEN LEAST(GREATEST(judged.retry_count, judged.last_attempt), 2147483646) + 1
                                        ELSE GREATEST(judged.retry_count, judged.last_attempt) END)) AS run (number)),
enqueued_at = CASE judged.status WHEN 'CLAIMED' THEN task.enqueued_at ELSE statement_timestamp() END,
next_retry_at = CASE judged.status WHEN 'CLAIMED' THEN task.next_retry_at END,
-- Workers do not start a task past its deadline, but the operator who requeues it wants it to run.
good_until = CASE WHEN task.good_until > statement_timestamp() OR judged.status = 'CLAIMED' THEN task.good_until END,
completed_at = NULL, failed_at = NULL, result = NULL, error_code = NULL, failed_reason = NULL,
/* back_in_queue */

-- name: requeue_options
-- verbs/tasks.py, a requeue with a fresh budget; reads only: what no verb changes ($1 tasks)
SELECT id, task_options FROM horsies_tasks WHERE id = ANY ($1::text[])

-- name: release_sets
-- fragment of `task_change`
/* back_in_queue */

-- name: task_ended
-- fragment: the SET of the verbs that end a task ($17 new status, $18 result, $19 its error code)
status = $17::text, claimed = false, claim_expires_at = NULL, result = $18::text, error_code = $19::text,
failed_at = CASE judged.status WHEN 'FAILED' THEN task.failed_at ELSE statement_timestamp() END,
failed_reason = $16::text, finalizing_at = NULL, finalizing_by_worker_id = NULL

-- name: expire_refusal
-- fragment of `judged`
CASE WHEN compared.good_until IS NULL THEN 'it has no good_until'
     WHEN compared.good_until > statement_timestamp() THEN 'its good_until has not passed' END

-- name: retry_now_refusal
-- fragment of `judged`
CASE WHEN GREATEST(compared.enqueued_at, compared.next_retry_at) <= statement_timestamp()
     THEN 'it is due already and waits for a worker' END

-- name: retry_now_sets
-- fragment of `task_change`
enqueued_at = LEAST(task.enqueued_at, statement_timestamp()),
-- LEAST of NULL and a time is the time: a delayed send would look like a retry.
next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL THEN LEAST(task.next_retry_at, statement_timestamp()) END

-- name: reprioritise_refusal
-- fragment of `judged`; no action on the task since it was seen
COALESCE(
    /* acted_on */,
    CASE WHEN compared.priority = $17::integer THEN 'it has this priority already' END)

-- name: reprioritise_sets
-- fragment of `task_change` ($17 the priority)
priority = $17::integer

-- name: move_refusal
-- fragment of `judged`; no action on the task since it was seen
COALESCE(
    /* acted_on */,
    CASE WHEN compared.queue_name = $17::text THEN 'it waits in that queue already' END)

-- name: move_sets
-- fragment of `task_change` ($17 the queue); the notification names the new queue, whose workers wake up
queue_name = $17::text

-- name: reschedule_refusal
-- fragment of `judged`; no action on the task since it was seen, and the time is before its deadline
COALESCE(
    /* acted_on */,
    CASE WHEN compared.good_until <= COALESCE($17::timestamptz, statement_timestamp())
         THEN 'it would be due after its good_until, so no worker would start it'
         WHEN $17::timestamptz IS NULL
              AND GREATEST(compared.enqueued_at, compared.next_retry_at) <= statement_timestamp()
         THEN 'it is due already and waits for a worker'
         WHEN GREATEST(compared.enqueued_at, compared.next_retry_at) = $17::timestamptz
         THEN 'it is due then already' END)

-- name: reschedule_sets
-- fragment of `task_change` ($17 the time, NULL: now)
enqueued_at = COALESCE($17::timestamptz, LEAST(task.enqueued_at, statement_timestamp())),
-- A delayed send has none, and would look like a retry if it got one.
next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL
                     THEN COALESCE($17::timestamptz, LEAST(task.next_retry_at, statement_timestamp())) END

-- name: task_refusals
-- verbs/tasks.py, preview of a verb with a refusal of its own; reads only ($1 tasks, $2 the value that they would get, if
-- the verb gives one)
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
