-- reconciling.reconcile; not ended; under the family's lock ($1 workflow, $2 indexes, $3 new statuses)
UPDATE horsies_workflow_tasks node
   SET status = mended.status
  FROM unnest($2::integer[], $3::text[]) AS mended (index, status)
 WHERE node.workflow_id = $1 AND node.task_index = mended.index AND node.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
