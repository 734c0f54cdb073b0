-- name: read_outcomes
-- reading.py, for all waits of this moment; reads only
SELECT id, status, result, error_code, failed_reason FROM horsies_tasks WHERE id = ANY ($1::text[])

-- name: read_task
-- reading.py, handle.info(); reads only. $2 and $3: whether the large columns are wanted
SELECT id AS task_id, task_name, status, queue_name, priority, retry_count, max_retries, next_retry_at, sent_at,
       enqueued_at, claimed_at, task.started_at, completed_at, failed_at, worker_hostname, worker_pid,
       worker_process_name, error_code,
       CASE WHEN $2::boolean THEN result END AS result,
       CASE WHEN $2::boolean OR $3::boolean THEN failed_reason END AS failed_reason,
       progress.done, progress.total, progress.unit, progress.reported_at
  FROM horsies_tasks task
  LEFT JOIN horsies_progress progress ON progress.task_id = task.id AND progress.started_at = task.started_at
 WHERE id = $1

-- name: read_attempts
-- reading.py, handle.info(include_attempts=True); reads only
SELECT task_id, attempt, outcome, will_retry, started_at, finished_at, error_code, error_message, failed_reason,
       worker_id, worker_hostname, worker_pid, worker_process_name
  FROM horsies_task_attempts
 WHERE task_id = $1
 ORDER BY attempt DESC

-- name: stale_tasks
-- reading.py, broker.get_stale_tasks(); reads only. Beats of an earlier attempt do not count: by them a second attempt
-- that has just started would be stale at once
SELECT task.id, task.worker_hostname, task.worker_pid, task.worker_process_name, beat.sent_at AS last_heartbeat,
       task.started_at, task.task_name
  FROM horsies_tasks task
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE task.status = 'RUNNING'
   AND COALESCE(beat.sent_at, task.started_at) < now() - $1::float8 * interval '1 minute'
 ORDER BY COALESCE(beat.sent_at, task.started_at), task.id

-- name: worker_stats
-- reading.py, broker.get_worker_stats(); reads only
SELECT task.worker_hostname, task.worker_pid, task.worker_process_name,
       count(*) AS active_tasks,
       min(task.started_at) AS oldest_task_start,
       max(beat.sent_at) AS latest_heartbeat
  FROM horsies_tasks task
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE task.status = 'RUNNING'
 GROUP BY task.worker_hostname, task.worker_pid, task.worker_process_name
 ORDER BY active_tasks DESC, task.worker_hostname, task.worker_pid

-- name: expired_tasks
-- reading.py, broker.get_expired_tasks(); reads only
SELECT id, task_name, queue_name, priority, sent_at, enqueued_at, good_until,
       CASE WHEN isfinite(good_until) THEN now() - good_until END AS expired_for
  FROM horsies_tasks
 WHERE status = 'PENDING' AND good_until <= now()
 ORDER BY good_until, id

-- name: read_workflow_outcomes
-- reading.py, for all waits of this moment ($1 ids); reads only
-- Large columns are read once, when the workflow is final, and not at each poll.
SELECT id, status,
       CASE WHEN status = 'COMPLETED' THEN result END AS result,
       CASE WHEN status IN ('FAILED', 'CANCELLED') THEN error END AS error
  FROM horsies_workflows
 WHERE id = ANY ($1::text[])

-- name: read_workflow_nodes
-- reading.py
-- ($1 workflow): its nodes, one row of NULLs if it has none, no row if it does not exist; reads only
SELECT node.task_index, node.node_id, node.task_name, node.status, node.result, node.started_at, node.completed_at,
       node.sub_workflow_id, node.sub_workflow_summary
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1
 ORDER BY node.task_index

-- name: read_workflow_node
-- reading.py ($1 workflow, $2 node_id): NULLs if the workflow has no such node; reads only
SELECT node.task_index, node.status, node.result
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id AND node.node_id = $2
 WHERE workflow.id = $1
