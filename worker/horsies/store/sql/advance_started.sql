-- advancing.nodes_started; the task runs or is tried again, the node is ENQUEUED, its workflow has not ended; under the
-- families' locks ($1 tasks)
UPDATE horsies_workflow_tasks node
   SET status = 'RUNNING', started_at = COALESCE(task.started_at, statement_timestamp())
  FROM horsies_tasks task
 WHERE node.task_id = ANY ($1) AND task.id = ANY ($1) AND task.id = node.task_id
   AND CASE WHEN node.status = 'ENQUEUED'
            THEN (task.status = 'RUNNING' OR task.status IN ('PENDING', 'CLAIMED') AND task.retry_count > 0)
                 AND (SELECT status FROM horsies_workflows WHERE id = node.workflow_id) IN ('RUNNING', 'PAUSED') END
RETURNING node.workflow_id
