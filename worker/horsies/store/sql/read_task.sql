-- reading.py, handle.info(); reads only. $2 and $3: whether the large columns are wanted
SELECT id AS task_id, task_name, status, queue_name, priority, retry_count, max_retries, next_retry_at, sent_at,
       enqueued_at, claimed_at, started_at, completed_at, failed_at, worker_hostname, worker_pid, worker_process_name,
       error_code,
       CASE WHEN $2::boolean THEN result END AS result,
       CASE WHEN $2::boolean OR $3::boolean THEN failed_reason END AS failed_reason
  FROM horsies_tasks
 WHERE id = $1
