-- name: copied_options
-- copy_workflow.py; reads only ($1 the original)
SELECT task_index, task_options, CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs,
       statement_timestamp() AS now
  FROM horsies_workflow_tasks
 WHERE workflow_id = $1
 ORDER BY task_index

-- name: copy_workflow_row
-- copy_workflow.py; a copy as a root of its own ($1 the original, $2 the copy)
INSERT INTO horsies_workflows (id, name, status, on_error, output_task_index, success_policy, definition_key, depth,
                               root_workflow_id, sent_at, created_at, started_at, updated_at)
SELECT $2, name, 'RUNNING', on_error, output_task_index, success_policy, definition_key, 0,
       $2, statement_timestamp(), statement_timestamp(), statement_timestamp(), statement_timestamp()
  FROM horsies_workflows
 WHERE id = $1

-- name: copy_nodes
-- copy_workflow.py; the nodes of a copy that this transaction has made
-- ($1 the original, $2 the copy, $3 indexes, $4 new ids, $5 task options, $6 kwargs of maps)
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs, queue_name,
                                    priority, dependencies, args_from, workflow_ctx_from, allow_failed_deps, join_type,
                                    min_success, task_options, status, is_subworkflow, sub_workflow_name,
                                    sub_definition_key, created_at)
SELECT copy.id, $2, node.task_index, node.node_id, node.task_name, node.task_args,
       COALESCE(copy.map_kwargs, node.task_kwargs), node.queue_name, node.priority, node.dependencies, node.args_from,
       node.workflow_ctx_from, node.allow_failed_deps, node.join_type,
       node.min_success, copy.task_options, CASE WHEN node.dependencies = '{}' THEN 'READY' ELSE 'PENDING' END,
       node.is_subworkflow, node.sub_workflow_name, node.sub_definition_key, statement_timestamp()
  FROM unnest($3::integer[], $4::text[], $5::text[], $6::text[]) AS copy (index, id, task_options, map_kwargs)
  JOIN horsies_workflow_tasks node ON node.workflow_id = $1 AND node.task_index = copy.index
