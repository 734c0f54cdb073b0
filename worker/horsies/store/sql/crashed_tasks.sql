-- operations/crashed.py, of which its statements select as `crashed`; reads only: tasks that failed as their worker died, newest
-- first, on which no operator has acted since; a recovery of the worker is what made it fail, no answer to it
-- By ix_horsies_tasks_crashed, and one probe of ix_horsies_operator_actions_target for each of them.
SELECT task.*
  FROM (SELECT id, task_name, queue_name, failed_at, claimed_by_worker_id FROM horsies_tasks
         WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED'
         ORDER BY failed_at DESC
         LIMIT 5000) task
  LEFT JOIN LATERAL (
        SELECT true AS done FROM horsies_operator_actions
         WHERE target_kind = 'task' AND target_id = task.id AND outcome = 'applied' AND verb <> 'recover'
           AND acted_at >= task.failed_at
         ORDER BY id DESC LIMIT 1) handled ON true
 WHERE handled.done IS NULL
