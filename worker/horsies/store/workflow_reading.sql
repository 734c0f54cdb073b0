-- name: read_workflow_outcomes
-- workflow_reading.py, for all waits of this moment ($1 ids); reads only
-- Large columns are read once, when the workflow is final, and not at each poll.
SELECT id, status,
       CASE WHEN status = 'COMPLETED' THEN result END AS result,
       CASE WHEN status IN ('FAILED', 'CANCELLED') THEN error END AS error
  FROM horsies_workflows
 WHERE id = ANY ($1::text[])

-- name: read_workflow_nodes
-- workflow_reading.py
-- ($1 workflow): its nodes, one row of NULLs if it has none, no row if it does not exist; reads only
SELECT node.task_index, node.node_id, node.task_name, node.status, node.result, node.started_at, node.completed_at,
       node.sub_workflow_id, node.sub_workflow_summary
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1
 ORDER BY node.task_index

-- name: read_workflow_node
-- workflow_reading.py ($1 workflow, $2 node_id): NULLs if the workflow has no such node; reads only
SELECT node.task_index, node.status, node.result
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id AND node.node_id = $2
 WHERE workflow.id = $1
