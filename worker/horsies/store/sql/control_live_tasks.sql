-- controlling.cancel; reads only: tasks of nodes that have not ended ($1 workflows)
SELECT task_id
  FROM horsies_workflow_tasks
 WHERE workflow_id = ANY ($1::text[]) AND status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED') AND task_id IS NOT NULL
