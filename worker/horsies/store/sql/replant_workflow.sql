-- replanting.replant; a copy as a root of its own ($1 the original, $2 the copy)
INSERT INTO horsies_workflows (id, name, status, on_error, output_task_index, success_policy, definition_key, depth,
                               root_workflow_id, sent_at, created_at, started_at, updated_at)
SELECT $2, name, 'RUNNING', on_error, output_task_index, success_policy, definition_key, 0,
       $2, statement_timestamp(), statement_timestamp(), statement_timestamp(), statement_timestamp()
  FROM horsies_workflows
 WHERE id = $1
