-- name: op_options
-- operations/tasks.py, requeue with a fresh budget; reads only: what no verb changes ($1 tasks)
SELECT id, task_options FROM horsies_tasks WHERE id = ANY ($1::text[])

-- name: op_last_actions
-- operations/tasks.py, preview of reruns; reads only ($1 tasks)
SELECT asked.id, newest.id
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT id FROM horsies_operator_actions
                      WHERE target_kind = 'task' AND target_id = asked.id AND outcome = 'applied'
                      ORDER BY id DESC LIMIT 1) newest

-- name: op_key_holders
-- operations/tasks.py, preview; reads only: the live tasks that have these unique keys ($1 keys)
SELECT unique_key, id
  FROM horsies_tasks
 WHERE unique_key = ANY ($1::text[]) AND status IN ('PENDING', 'CLAIMED', 'RUNNING')

-- name: op_workflows
-- operations/tasks.py, preview; reads only: the workflows of these tasks ($1 tasks)
SELECT node.task_id, workflow.id, workflow.name, workflow.status, node.status
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_workflow_tasks node ON node.task_id = asked.id
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
