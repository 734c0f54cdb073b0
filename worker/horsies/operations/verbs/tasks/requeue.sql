-- name: requeue_options
-- verbs/tasks/requeue.py, with a fresh budget; reads only: what no verb changes ($1 tasks)
SELECT id, task_options FROM horsies_tasks WHERE id = ANY ($1::text[])

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
