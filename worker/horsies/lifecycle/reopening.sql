-- name: reopen_nodes
-- reopening.py; ended; under the family's lock
-- ($1 workflows, $2 indexes, $3 new statuses, $4 whether they keep their task or child workflow)
UPDATE horsies_workflow_tasks node
   SET status = reopened.status, result = NULL, error = NULL, completed_at = NULL,
       task_id = CASE WHEN reopened.keep THEN node.task_id END,
       sub_workflow_id = CASE WHEN reopened.keep THEN node.sub_workflow_id END,
       started_at = CASE WHEN reopened.keep THEN node.started_at END,
       sub_workflow_summary = NULL
  FROM unnest($1::text[], $2::integer[], $3::text[], $4::boolean[]) AS reopened (workflow_id, index, status, keep)
 WHERE node.workflow_id = reopened.workflow_id AND node.task_index = reopened.index
   AND node.status IN /* ended_nodes */

-- name: reopen_workflows
-- reopening.write; FAILED, RUNNING or PAUSED; under the family's lock ($1 workflows)
UPDATE horsies_workflows
   SET status = CASE WHEN status = 'PAUSED' THEN 'PAUSED' ELSE 'RUNNING' END,
       error = NULL, result = NULL, completed_at = NULL, updated_at = statement_timestamp()
 WHERE id = ANY ($1::text[]) AND status IN ('FAILED', 'RUNNING', 'PAUSED')

-- name: advance_lock_tasks
-- reopening.lock_families_of; as `advance_lock`, for the workflows of tasks ($1 tasks)
SELECT id
  FROM horsies_workflows
 WHERE id = ANY (ARRAY(SELECT COALESCE(root_workflow_id, id)
                         FROM horsies_workflows
                        WHERE id = ANY (ARRAY(SELECT workflow_id FROM horsies_workflow_tasks
                                               WHERE task_id = ANY ($1)))))
 ORDER BY id FOR NO KEY UPDATE

-- name: reopen_tasks
-- reopening.reopen_for_tasks; reads only: failed or skipped nodes of tasks that are open again ($1 tasks)
SELECT node.workflow_id, node.task_index
  FROM horsies_workflow_tasks node
  JOIN horsies_tasks task ON task.id = node.task_id
 WHERE node.task_id = ANY ($1::text[]) AND node.status IN ('FAILED', 'SKIPPED')
   AND task.status IN /* open_tasks */
