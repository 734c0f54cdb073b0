-- name: reference_texts
-- references.resolved; reads only: the results of nodes ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index, node.result, node.sub_workflow_summary
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT result, sub_workflow_summary FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node
