-- workflow_reading.py ($1 workflow, $2 node_id): NULLs where the workflow has no such node; reads only
SELECT node.task_index, node.status, node.result
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id AND node.node_id = $2
 WHERE workflow.id = $1
