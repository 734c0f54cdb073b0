-- deadlines.drop_past_deadlines; without a task; under the families' locks
-- ($1 workflows, $2 indexes, $3 options, $4 kwargs of maps)
UPDATE horsies_workflow_tasks node
   SET task_options = mended.options, task_kwargs = COALESCE(mended.map_kwargs, node.task_kwargs)
  FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[]) AS mended (workflow_id, index, options, map_kwargs)
 WHERE node.workflow_id = mended.workflow_id AND node.task_index = mended.index AND node.task_id IS NULL
