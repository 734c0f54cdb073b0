-- deadlines.drop_past_deadlines; reads only ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index AS task_index, node.task_options, node.map_kwargs, statement_timestamp() AS now
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT task_options, CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs
                       FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node
