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

-- name: reopen_deadlines
-- reopening.drop_past_deadlines; reads only ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index AS task_index, node.task_options, node.map_kwargs, statement_timestamp() AS now
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT task_options,
                            CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs
                       FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node

-- name: reopen_options
-- reopening.drop_past_deadlines; without a task; under the families' locks
-- ($1 workflows, $2 indexes, $3 options, $4 kwargs of maps)
UPDATE horsies_workflow_tasks node
   SET task_options = mended.options, task_kwargs = COALESCE(mended.map_kwargs, node.task_kwargs)
  FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[]) AS mended (workflow_id, index, options, map_kwargs)
 WHERE node.workflow_id = mended.workflow_id AND node.task_index = mended.index AND node.task_id IS NULL
