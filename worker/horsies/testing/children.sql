-- name: is_busy
-- testing/children.py, whether a drain has anything left to wait for; reads only ($1 queues, $2 task names)
SELECT EXISTS (SELECT FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') AND queue_name = ANY ($1::text[]))
    OR EXISTS (SELECT FROM horsies_tasks
                WHERE status = 'PENDING' AND queue_name = ANY ($1) AND task_name = ANY ($2::text[])
                  AND enqueued_at <= statement_timestamp()
                  AND (next_retry_at IS NULL OR next_retry_at <= statement_timestamp())
                  AND (good_until IS NULL OR good_until > statement_timestamp())
                  AND CASE WHEN is_workflow_task THEN NOT horsies_is_held(id) ELSE true END
                  AND NOT EXISTS (SELECT FROM horsies_queue_state state
                                   WHERE state.queue_name = horsies_tasks.queue_name AND paused_at IS NOT NULL))
    OR EXISTS (SELECT FROM horsies_workflow_tasks node
                 JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                WHERE node.is_subworkflow AND node.sub_workflow_id IS NULL AND node.status = 'READY'
                  AND workflow.status = 'RUNNING')
