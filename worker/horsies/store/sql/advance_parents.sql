-- completing; reads only: ended workflows among these, or among the children of these, whose parent's node has not ended
-- ($1 workflows, $2 workflows that may be their parents)
SELECT child.id, child.name, child.status, child.result, child.error, child.parent_workflow_id, child.parent_task_index,
       nodes.total, nodes.completed, nodes.failed, nodes.skipped
  FROM horsies_workflows child
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = child.parent_workflow_id
                        AND CASE WHEN status IN ('RUNNING', 'PAUSED') THEN true END OFFSET 0) parent
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                      WHERE workflow_id = child.parent_workflow_id AND task_index = child.parent_task_index
                        AND CASE WHEN status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED') THEN sub_workflow_id = child.id END
                     OFFSET 0) node
 CROSS JOIN LATERAL (
       SELECT count(*) AS total, count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
              count(*) FILTER (WHERE status = 'FAILED') AS failed, count(*) FILTER (WHERE status = 'SKIPPED') AS skipped
         FROM horsies_workflow_tasks WHERE workflow_id = child.id) nodes
 WHERE child.id = ANY ($1 || ARRAY(SELECT id::text FROM horsies_workflows WHERE parent_workflow_id = ANY ($2)))
   AND CASE WHEN child.status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN true END
