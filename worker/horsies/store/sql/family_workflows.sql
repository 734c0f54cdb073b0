-- families.py; reads only ($1 workflows)
SELECT id, name, status, on_error, success_policy, error IS NOT NULL AS has_error, parent_workflow_id, parent_task_index, depth,
       COALESCE(root_workflow_id, id) AS root, updated_at, statement_timestamp() AS now
  FROM horsies_workflows
 WHERE id = ANY ($1::text[])
 ORDER BY depth, id
