-- views/tasks.py; reads only: what an operation freezes, as lifecycle.by_hand.Seen has it ($1 to $67 as in
-- view_candidates.sql, $68 rows at most)
SELECT id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, retry_count, error_code,
       GREATEST(enqueued_at, next_retry_at) AS due, good_until, finalizing_at, unique_key, is_workflow_task
  FROM task
 ORDER BY at DESC, id DESC
 LIMIT $68
