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
