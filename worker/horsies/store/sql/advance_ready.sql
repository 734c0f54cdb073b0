-- node_tasks; reads only: READY nodes of RUNNING workflows that have no task or child yet ($1 workflows, $2 indexes, NULL
-- for all)
SELECT node.workflow_id, node.task_index, node.task_name, node.task_kwargs, node.queue_name, node.priority,
       node.args_from::text AS args_from, cardinality(node.workflow_ctx_from) > 0 AS has_context, node.task_options,
       node.is_subworkflow, node.sub_definition_key, statement_timestamp() AS now
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = asked.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
 CROSS JOIN LATERAL (SELECT * FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id
                        -- A range, which an index can serve; an OR could not.
                        AND task_index BETWEEN COALESCE(asked.index, -2147483648) AND COALESCE(asked.index, 2147483647)
                        AND status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING') AND status = 'READY'
                        AND task_id IS NULL AND sub_workflow_id IS NULL OFFSET 0) node
 ORDER BY node.workflow_id, node.task_index
