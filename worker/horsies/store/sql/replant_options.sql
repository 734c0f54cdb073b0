-- replanting.replant; reads only ($1 the original)
SELECT task_index, task_options, CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs,
       statement_timestamp() AS now
  FROM horsies_workflow_tasks
 WHERE workflow_id = $1
 ORDER BY task_index
