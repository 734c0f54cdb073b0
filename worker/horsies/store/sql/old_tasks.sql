-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- `rows`: attempts go with their task.
SELECT id, COALESCE(completed_at, failed_at) AS after, id AS after_id, LEAST(GREATEST(retry_count, 0), 1000) + 2 AS rows
  FROM horsies_tasks task
 WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
   AND COALESCE(completed_at, failed_at) < statement_timestamp() - $1 * interval '1 s'
   AND COALESCE(completed_at, failed_at) >= $2 AND (COALESCE(completed_at, failed_at), id) > ($2, $3)
       -- Not EXISTS: that is planned as a join, which reads all nodes of unfinished workflows for each page.
   AND (SELECT workflow.id FROM horsies_workflow_tasks node
          JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
         WHERE node.task_id = task.id AND workflow.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
         LIMIT 1) IS NULL
 ORDER BY COALESCE(completed_at, failed_at), id
 LIMIT $4
