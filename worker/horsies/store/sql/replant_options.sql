-- replanting.replant; reads only ($1 the original)
SELECT task_index, task_options, statement_timestamp() AS now
  FROM horsies_workflow_tasks
 WHERE workflow_id = $1
 ORDER BY task_index
