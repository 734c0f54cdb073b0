-- name: pass_time
-- testing/draining.py, to simulate the passing of time; PENDING ($1 queues, $2 seconds)
UPDATE horsies_tasks
   SET enqueued_at = enqueued_at - $2::double precision * interval '1 s',
       next_retry_at = next_retry_at - $2 * interval '1 s',
       good_until = good_until - $2 * interval '1 s', updated_at = statement_timestamp()
 WHERE status = 'PENDING' AND queue_name = ANY ($1::text[])

-- name: is_busy
-- testing/draining.py, whether a drain has anything left to wait for; reads only ($1 queues, $2 task names)
SELECT EXISTS (SELECT FROM horsies_tasks WHERE status IN /* tasks_in_flight */ AND queue_name = ANY ($1::text[]))
    OR EXISTS (SELECT FROM horsies_tasks
                WHERE status = 'PENDING' AND queue_name = ANY ($1) AND task_name = ANY ($2::text[])
                  AND horsies_may_run(id, enqueued_at, next_retry_at, good_until, is_workflow_task, workflow_paused_at)
                  AND NOT EXISTS (SELECT FROM horsies_queue_state state
                                   WHERE state.queue_name = horsies_tasks.queue_name AND paused_at IS NOT NULL))
    OR EXISTS (SELECT FROM horsies_workflow_tasks node
                 JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                WHERE node.is_subworkflow AND node.sub_workflow_id IS NULL AND node.status = 'READY'
                  AND workflow.status = 'RUNNING')
