-- reopening.py; ended; under the family's lock ($1 workflows, $2 indexes, $3 new statuses, $4 whether they keep their task or
-- child workflow)
UPDATE horsies_workflow_tasks node
   SET status = reopened.status, result = NULL, error = NULL, completed_at = NULL,
       task_id = CASE WHEN reopened.keep THEN node.task_id END,
       sub_workflow_id = CASE WHEN reopened.keep THEN node.sub_workflow_id END,
       started_at = CASE WHEN reopened.keep THEN node.started_at END,
       sub_workflow_summary = NULL
  FROM unnest($1::text[], $2::integer[], $3::text[], $4::boolean[]) AS reopened (workflow_id, index, status, keep)
 WHERE node.workflow_id = reopened.workflow_id AND node.task_index = reopened.index
   AND node.status IN ('COMPLETED', 'FAILED', 'SKIPPED')
