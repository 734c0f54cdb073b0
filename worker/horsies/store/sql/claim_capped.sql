-- claiming.claim_capped; as claim.sql, within the caps: horsies_claim_capped of migration 008 holds their locks
-- ($1 worker, $2 queues, $3 their caps, $4 budget, $5 cluster cap, $6 hard, $7 lease in ms, $8 task names, NULL for any)
-- Four queues and 250 to 3 000 tasks in flight: one task 0.22 ms (claim.sql: 0.11), 50 tasks 1.4 ms (0.74).
SELECT task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
       task.queue_name, task.priority,
       CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
            THEN task.args END AS args,
       CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
            THEN task.kwargs END AS kwargs,
       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large,
       task.task_options, task.retry_count, task.max_retries, task.is_workflow_task
  FROM horsies_claim_capped($1, $2, $3, $4, $5, $6, $7 * interval '1 ms', $8) task
