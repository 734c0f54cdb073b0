-- advancing.advance; the task has ended, the node has not, its workflow is RUNNING or PAUSED; under the families' locks
-- ($1 tasks)
UPDATE horsies_workflow_tasks node
   SET status = CASE WHEN task.status = 'COMPLETED' AND task.result IS NOT NULL THEN 'COMPLETED' ELSE 'FAILED' END,
       result = COALESCE(task.result,
                         '{"__task_result__":true,"ok":null,"err":{"__task_error__":true,"error_code":'
                         || '{"__builtin_task_code__":"'
                         || CASE task.status WHEN 'FAILED' THEN 'WORKER_CRASHED'
                                             WHEN 'CANCELLED' THEN 'TASK_CANCELLED'
                                             WHEN 'EXPIRED' THEN 'TASK_EXPIRED'
                                             ELSE 'RESULT_NOT_AVAILABLE' END
                         || '"},"data":{"task_id":' || to_json(task.id) || '},"message":'
                         || to_json(COALESCE(task.failed_reason, 'its task is ' || task.status || ' and holds no result'))
                         || '}}'),
       started_at = COALESCE(task.started_at, node.started_at),
       completed_at = COALESCE(task.completed_at, task.failed_at, statement_timestamp())
  FROM horsies_tasks task
 WHERE node.task_id = ANY ($1) AND task.id = ANY ($1) AND task.id = node.task_id
       -- Each in a CASE, so that no index is chosen for a state: where statistics are from a quiet hour it looks empty.
   AND CASE WHEN node.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
            THEN task.status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                 AND (SELECT status FROM horsies_workflows WHERE id = node.workflow_id) IN ('RUNNING', 'PAUSED') END
RETURNING node.workflow_id, node.task_index, node.status
