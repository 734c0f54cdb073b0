-- children.py; reads only, under the family's lock: the workflow of a node that still waits for its child
-- ($1 workflow, $2 index)
SELECT workflow.depth, COALESCE(workflow.root_workflow_id, workflow.id) AS root
  FROM horsies_workflows workflow
  JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1 AND node.workflow_id = $1 AND node.task_index = $2
   AND CASE WHEN workflow.status = 'RUNNING' AND node.status = 'READY' THEN node.sub_workflow_id IS NULL END
