-- planting.plant; the nodes of a workflow that this transaction has made
-- ($1 workflow, then one array per column; arrays inside them travel as text)
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs, queue_name,
                                    priority, dependencies, args_from, workflow_ctx_from, allow_failed_deps, join_type,
                                    min_success, task_options, status, is_subworkflow, sub_workflow_name,
                                    sub_definition_key, created_at)
SELECT node.id, $1, node.index, node.node_id, node.task_name, '[]', node.kwargs, node.queue_name,
       node.priority, node.dependencies::int[], node.args_from::jsonb, node.ctx_from::varchar(128)[],
       node.allow_failed_deps, node.join_type, node.min_success, node.task_options,
       CASE WHEN node.dependencies = '{}' THEN 'READY' ELSE 'PENDING' END,
       node.definition_key IS NOT NULL, CASE WHEN node.definition_key IS NOT NULL THEN node.task_name END,
       node.definition_key, statement_timestamp()
  FROM unnest($2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[],
              $10::text[], $11::text[], $12::bool[], $13::text[], $14::int[], $15::text[], $16::text[])
       AS node (id, index, node_id, task_name, kwargs, queue_name, priority, dependencies,
                args_from, ctx_from, allow_failed_deps, join_type, min_success, task_options, definition_key)
