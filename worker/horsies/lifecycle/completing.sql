-- name: advance_over
-- completing; reads only: RUNNING workflows among these without an open node ($1 workflows)
SELECT workflow.id, workflow.definition_key, workflow.output_task_index,
       workflow.success_policy::text AS success_policy, workflow.error
  FROM horsies_workflows workflow
 WHERE workflow.id = ANY ($1)
   AND CASE workflow.status
            WHEN 'RUNNING'
            -- Not EXISTS, which the planner may answer by reading the open nodes of all workflows.
            THEN CASE WHEN (SELECT count(*)
                              FROM (SELECT FROM horsies_workflow_tasks
                                     WHERE workflow_id = workflow.id
                                       AND status IN /* open_nodes */
                                     LIMIT 1) open) = 0
                      -- A workflow with a node of an unknown status is not complete either.
                      THEN (SELECT bool_and(CASE WHEN status IN /* ended_nodes */
                                                 THEN true ELSE false END)
                              FROM horsies_workflow_tasks
                             WHERE workflow_id = workflow.id) IS NOT FALSE END END

-- name: advance_all_nodes
-- completing; reads only: the nodes of workflows that are complete ($1 workflows)
SELECT workflow_id, task_index, node_id, status, dependencies
  FROM horsies_workflow_tasks
 WHERE workflow_id = ANY ($1)
 ORDER BY workflow_id, task_index

-- name: advance_finish
-- completing; RUNNING; under the families' locks ($1 workflows, $2 statuses, $3 results, $4 errors)
UPDATE horsies_workflows workflow
   SET status = finished.status, result = finished.result, error = finished.error,
       completed_at = statement_timestamp(), updated_at = statement_timestamp()
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS finished (id, status, result, error)
 WHERE workflow.id = ANY ($1) AND workflow.id = finished.id AND CASE workflow.status WHEN 'RUNNING' THEN true END
RETURNING workflow.id

-- name: advance_parents
-- completing; reads only: ended workflows among these, or among the children of these, whose parent's node has not
-- ended
-- ($1 workflows, $2 workflows that may be their parents)
SELECT child.id, child.name, child.definition_key, child.status, child.result, child.error, child.parent_workflow_id,
       child.parent_task_index, nodes.total, nodes.completed, nodes.failed, nodes.skipped
  FROM horsies_workflows child
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = child.parent_workflow_id
                        AND CASE WHEN status IN ('RUNNING', 'PAUSED') THEN true END OFFSET 0) parent
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                      WHERE workflow_id = child.parent_workflow_id AND task_index = child.parent_task_index
                        AND CASE WHEN status NOT IN /* ended_nodes */
                                 THEN sub_workflow_id = child.id END
                     OFFSET 0) node
 CROSS JOIN LATERAL (
       SELECT count(*) AS total, count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
              count(*) FILTER (WHERE status = 'FAILED') AS failed, count(*) FILTER (WHERE status = 'SKIPPED') AS skipped
         FROM horsies_workflow_tasks WHERE workflow_id = child.id) nodes
 WHERE child.id = ANY ($1 || ARRAY(SELECT id::text FROM horsies_workflows WHERE parent_workflow_id = ANY ($2)))
   AND CASE WHEN child.status IN /* ended_workflows */ THEN true END

-- name: advance_results
-- completing; reads only ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index, node.result
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT result FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node
