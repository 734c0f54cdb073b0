-- operations/tasks.py, preview; reads only: the workflows of these tasks ($1 tasks)
SELECT node.task_id, workflow.id, workflow.name, workflow.status, node.status
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_workflow_tasks node ON node.task_id = asked.id
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
