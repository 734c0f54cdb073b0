-- name: diagnose_crashed
-- findings/crashed.py, over `crashed_tasks`; reads only; worker, child and reason of the newest ($1 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(failed_at)::timestamptz AS since,
       (array_agg(id ORDER BY failed_at, id))[:$1] AS ids,
       array_agg(DISTINCT claimed_by_worker_id) FILTER (WHERE claimed_by_worker_id IS NOT NULL) AS workers,
       (array_agg(claimed_by_worker_id ORDER BY failed_at DESC, id))[1] AS worker_id,
       (array_agg(worker_pid ORDER BY failed_at DESC, id))[1] AS worker_pid,
       (array_agg(left(failed_reason, 300) ORDER BY failed_at DESC, id))[1] AS reason
  FROM crashed
 GROUP BY task_name, queue_name
 ORDER BY min(failed_at)

-- name: order_crashed
-- findings/crashed.py, over `crashed_tasks`, before a worker is acknowledged; reads only ($1 workers)
SELECT claimed_by_worker_id AS worker_id, task_name, count(*)::integer AS tasks FROM crashed
 WHERE claimed_by_worker_id = ANY ($1::text[])
 GROUP BY claimed_by_worker_id, task_name
 ORDER BY claimed_by_worker_id, tasks DESC, task_name

-- name: crashed_tasks
-- findings/crashed.py, whose statements select from it as `crashed`; reads only: tasks that failed because their
-- worker died, newest first, without an operator action since; a recovery of the worker is what made them fail, and
-- does not count
-- By ix_horsies_tasks_crashed, and one probe of ix_horsies_operator_actions_target for each of them.
SELECT task.*
  FROM (SELECT id, task_name, queue_name, failed_at, claimed_by_worker_id, worker_pid, failed_reason FROM horsies_tasks
         WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED'
         ORDER BY failed_at DESC
         LIMIT 5000) task
  LEFT JOIN LATERAL (
        SELECT true AS done FROM horsies_operator_actions
         WHERE target_kind = 'task' AND target_id = task.id AND outcome = 'applied' AND verb <> 'recover'
           AND acted_at >= task.failed_at
         ORDER BY id DESC LIMIT 1) handled ON true
 WHERE handled.done IS NULL
