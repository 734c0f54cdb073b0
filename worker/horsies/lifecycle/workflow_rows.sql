-- name: family_workflows
-- workflow_rows.py; reads only ($1 workflows)
SELECT id, name, status, on_error, success_policy, error IS NOT NULL AS has_error, parent_workflow_id,
       parent_task_index, depth, COALESCE(root_workflow_id, id) AS root, updated_at, statement_timestamp() AS now
  FROM horsies_workflows
 WHERE id = ANY ($1::text[])
 ORDER BY depth, id

-- name: family_nodes
-- workflow_rows.py, nodes with the states of their tasks and child workflows; reads only ($1 workflows)
SELECT node.workflow_id, node.task_index, COALESCE(node.node_id, node.task_index::text) AS node_id, node.task_name,
       node.status, node.dependencies, node.workflow_ctx_from, node.allow_failed_deps, node.join_type, node.min_success,
       node.is_subworkflow, node.task_id, node.sub_workflow_id, node.completed_at,
       task.status AS task_status, task.started_at AS task_started_at,
       CASE WHEN task.status IN /* ended_tasks */
            THEN COALESCE(task.completed_at, task.failed_at, task.updated_at) END AS task_ended_at,
       task.result IS NOT NULL AS task_has_result, child.status AS child_status,
       COALESCE(child.parent_workflow_id <> node.workflow_id OR child.parent_task_index <> node.task_index, false)
           AS child_names_another_parent
  FROM horsies_workflow_tasks node
  LEFT JOIN horsies_tasks task ON task.id = node.task_id
  LEFT JOIN horsies_workflows child ON child.id = node.sub_workflow_id
 WHERE node.workflow_id = ANY ($1::text[])
 ORDER BY node.workflow_id, node.task_index

-- name: family_of
-- workflow_rows.py, all workflows of a family; reads only ($1 its root)
SELECT id FROM horsies_workflows WHERE id = $1 OR root_workflow_id = $1
