-- workflow_reading.py ($1 workflow): its nodes, one row of NULLs where it has none, no row where it is not there; reads only
SELECT node.task_index, node.node_id, node.task_name, node.status, node.result, node.started_at, node.completed_at,
       node.sub_workflow_id, node.sub_workflow_summary
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1
 ORDER BY node.task_index
