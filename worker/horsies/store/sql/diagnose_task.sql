-- why.py; reads only ($1 task)
SELECT id, status, task_name, queue_name, priority, enqueued_at::timestamptz, next_retry_at::timestamptz,
       good_until::timestamptz, retry_count, max_retries
  FROM horsies_tasks
 WHERE id = $1
