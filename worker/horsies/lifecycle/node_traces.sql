-- name: nodes_of_tasks
-- node_traces.note_spans; reads only, under the families' locks ($1 tasks)
SELECT id, task_id, task_options FROM horsies_workflow_tasks WHERE task_id = ANY ($1::text[])

-- name: note_spans
-- node_traces.note_spans; under the families' locks; no state changes ($1 nodes, $2 their options with the span)
UPDATE horsies_workflow_tasks node
   SET task_options = noted.options
  FROM unnest($1::text[], $2::text[]) AS noted (id, options)
 WHERE node.id = ANY ($1) AND node.id = noted.id

-- name: dependency_options
-- node_traces.spans_before; reads only, under the families' locks ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index, source.task_options
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT dependencies FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node
 CROSS JOIN LATERAL (SELECT task_index, task_options FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = ANY (node.dependencies)
                        AND task_options LIKE '%"span":%'
                      ORDER BY task_index LIMIT 32) source
 ORDER BY asked.workflow_id, asked.index, source.task_index
