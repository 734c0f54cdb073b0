-- advancing, after nodes have FAILED; reads only: for each workflow that its error matters to, the first of them by index
-- ($1 workflows, $2 indexes)
SELECT DISTINCT ON (failed.workflow_id) failed.workflow_id, failed.index AS task_index, node.node_id, node.result
  FROM unnest($1::text[], $2::integer[]) AS failed (workflow_id, index)
  JOIN horsies_workflows workflow ON workflow.id = failed.workflow_id
 CROSS JOIN LATERAL (SELECT node_id, result FROM horsies_workflow_tasks
                      WHERE workflow_id = failed.workflow_id AND task_index = failed.index OFFSET 0) node
 WHERE workflow.id = ANY ($1) AND (workflow.error IS NULL OR workflow.on_error = 'pause')
 ORDER BY failed.workflow_id, failed.index
