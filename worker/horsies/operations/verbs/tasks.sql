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
