-- name: order_holds
-- operations/worker_targets.py, recover; reads only, after the column status in the order of StaleRun ($1 worker)
SELECT task.status, task.id, task.claimed_by_worker_id, task.claimed_at, task.retry_count, task.max_retries,
       task.task_options, task.good_until, COALESCE(task.started_at, task.claimed_at, task.updated_at) AS started_at,
       task.worker_pid, task.worker_hostname, beat.sent_at AS last_beat, statement_timestamp() AS detected_at
  FROM horsies_tasks task
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE task.status IN /* tasks_in_flight */ AND task.claimed_by_worker_id = $1
 ORDER BY task.id
