-- name: op_see
-- operations/selection.py, the rows with these ids as views.tasks.ExpectedState; reads only ($1 tasks)
SELECT task.id, task.task_name, task.queue_name, task.status, task.claimed_by_worker_id, task.claimed_at,
       task.retry_count, task.error_code, task.good_until, task.finalizing_at, task.is_workflow_task
       -- An array of 100 000 ids in a condition is searched once per row of a sequential scan; joined, each is one
       -- probe.
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_tasks task ON task.id = asked.id

-- name: op_present
-- operations/selection.py, the values that a verb gives waiting tasks, each as an operator types it, NULL if the tasks
-- differ; reads only ($1 tasks)
SELECT CASE WHEN min(task.priority) = max(task.priority) THEN min(task.priority)::text END AS priority,
       CASE WHEN min(task.queue_name) = max(task.queue_name) THEN min(task.queue_name)::text END AS queue_name,
       CASE WHEN min(waits.until) = max(waits.until) AND min(waits.until) > statement_timestamp()
            THEN to_char(min(waits.until) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END AS due
  FROM unnest($1::text[]) AS asked (id)
  JOIN horsies_tasks task ON task.id = asked.id AND task.status = 'PENDING'
 CROSS JOIN LATERAL (SELECT GREATEST(task.enqueued_at, task.next_retry_at)) AS waits (until)
