-- name: op_see
-- operations/selection.py, the rows with these ids as views.tasks.ExpectedState; reads only ($1 tasks)
SELECT task.id, task.task_name, task.queue_name, task.status, task.claimed_by_worker_id, task.claimed_at,
       task.retry_count, task.error_code, task.good_until, task.finalizing_at, task.is_workflow_task
       -- An array of 100 000 ids in a condition is searched once per row of a sequential scan; joined, each is one
       -- probe.
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_tasks task ON task.id = asked.id
