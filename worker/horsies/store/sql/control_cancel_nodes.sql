-- controlling.cancel, after its tasks; not ended; under the family's lock
-- ($1 workflows, $2 tasks that were cancelled just now, $3 those of them that ran, $4 result of what ran, $5 results by the
--  status of a task that has none)
-- What ended by itself before, and whose outcome had not reached the node yet, keeps that outcome.
UPDATE horsies_workflow_tasks node
   SET status = CASE WHEN judged.cancelled THEN CASE WHEN judged.ran THEN 'FAILED' ELSE 'SKIPPED' END
                     WHEN judged.task_status = 'COMPLETED' AND judged.task_result IS NOT NULL THEN 'COMPLETED'
                     ELSE 'FAILED' END,
       result = CASE WHEN judged.cancelled THEN CASE WHEN judged.ran THEN $4::text END
                     ELSE COALESCE(judged.task_result, $5::jsonb ->> judged.task_status) END,
       started_at = COALESCE(judged.task_started_at, node.started_at),
       completed_at = statement_timestamp()
  FROM (SELECT mine.id, task.status AS task_status, task.result AS task_result, task.started_at AS task_started_at,
               task.status IS NULL OR task.status IN ('PENDING', 'CLAIMED', 'RUNNING') OR task.id = ANY ($2::text[]) AS cancelled,
               mine.status = 'RUNNING' OR mine.task_id = ANY ($3::text[]) AS ran
          FROM horsies_workflow_tasks mine
          LEFT JOIN horsies_tasks task ON task.id = mine.task_id
         WHERE mine.workflow_id = ANY ($1::text[]) AND mine.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')) judged
 WHERE node.workflow_id = ANY ($1::text[]) AND node.id = judged.id
