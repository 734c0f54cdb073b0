-- why.py; reads only: with the workflow that holds it, where that is PAUSED ($1 task)
SELECT task.id, task.status, task.task_name, task.queue_name, task.priority, task.enqueued_at::timestamptz,
       task.next_retry_at::timestamptz, task.good_until::timestamptz, task.retry_count, task.max_retries,
       held.id AS workflow_id, held.name AS workflow_name, held.failed AS workflow_failed
  FROM horsies_tasks task
  LEFT JOIN LATERAL (SELECT workflow.id, workflow.name, workflow.error IS NOT NULL AS failed
                       FROM horsies_workflow_tasks node
                       JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                      WHERE node.task_id = task.id AND CASE workflow.status WHEN 'PAUSED' THEN true END
                      LIMIT 1) held ON true
 WHERE task.id = $1
