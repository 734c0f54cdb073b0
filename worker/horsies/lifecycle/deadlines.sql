-- name: reopen_deadlines
-- deadlines.drop_past_deadlines; reads only ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index AS task_index, node.task_options, node.map_kwargs, statement_timestamp() AS now
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT task_options,
                            CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs
                       FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node

-- name: reopen_options
-- deadlines.drop_past_deadlines; without a task; under the families' locks
-- ($1 workflows, $2 indexes, $3 options, $4 kwargs of maps)
UPDATE horsies_workflow_tasks node
   SET task_options = mended.options, task_kwargs = COALESCE(mended.map_kwargs, node.task_kwargs)
  FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[]) AS mended (workflow_id, index, options, map_kwargs)
 WHERE node.workflow_id = mended.workflow_id AND node.task_index = mended.index AND node.task_id IS NULL
