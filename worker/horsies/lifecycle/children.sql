-- name: child_waiting
-- children.ready_children; reads only: READY nodes of RUNNING workflows whose child is to be built, oldest workflow
-- first
-- ($1 workflows, NULL for any, $2 how many)
SELECT node.workflow_id, node.task_index
  FROM horsies_workflow_tasks node
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = node.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
 WHERE node.is_subworkflow AND node.sub_workflow_id IS NULL AND node.status = 'READY'
   AND ($1::text[] IS NULL OR node.workflow_id = ANY ($1))
 ORDER BY node.workflow_id, node.task_index
 LIMIT $2

-- name: child_parent
-- children.py; reads only, under the family's lock: the workflow of a node that still waits for its child
-- ($1 workflow, $2 index)
SELECT workflow.depth, COALESCE(workflow.root_workflow_id, workflow.id) AS root
  FROM horsies_workflows workflow
  JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1 AND node.workflow_id = $1 AND node.task_index = $2
   AND CASE WHEN workflow.status = 'RUNNING' AND node.status = 'READY' THEN node.sub_workflow_id IS NULL END

-- name: child_link
-- children.start_child; the node waits for its child; under the family's lock ($1 workflow, $2 index, $3 child)
UPDATE horsies_workflow_tasks
   SET status = 'RUNNING', sub_workflow_id = $3, started_at = statement_timestamp()
 WHERE workflow_id = $1 AND task_index = $2 AND CASE status WHEN 'READY' THEN sub_workflow_id IS NULL END
