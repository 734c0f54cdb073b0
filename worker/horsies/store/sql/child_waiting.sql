-- children.ready_children; reads only: READY nodes of RUNNING workflows whose child is to be built, oldest workflow first
-- ($1 workflows, NULL for any, $2 how many)
SELECT node.workflow_id, node.task_index
  FROM horsies_workflow_tasks node
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = node.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
 WHERE node.is_subworkflow AND node.sub_workflow_id IS NULL AND node.status = 'READY'
   AND ($1::text[] IS NULL OR node.workflow_id = ANY ($1))
 ORDER BY node.workflow_id, node.task_index
 LIMIT $2
