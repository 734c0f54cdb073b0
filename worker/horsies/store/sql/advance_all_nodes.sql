-- completing; reads only: the nodes of workflows that are over ($1 workflows)
SELECT workflow_id, task_index, node_id, status, dependencies
  FROM horsies_workflow_tasks
 WHERE workflow_id = ANY ($1)
 ORDER BY workflow_id, task_index
