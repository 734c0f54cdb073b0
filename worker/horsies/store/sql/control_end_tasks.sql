-- controlling.cancel, skip_node, complete_node; PENDING, CLAIMED or RUNNING; under the family's lock
-- ($1 tasks, $2 result, $3 words)
WITH held AS MATERIALIZED (
    -- Who waits here for a worker's outcome finds the task ended, and leaves it so.
    SELECT id, status FROM horsies_tasks
     WHERE id = ANY ($1::text[]) AND status IN ('PENDING', 'CLAIMED', 'RUNNING')
     ORDER BY id FOR NO KEY UPDATE
), ended AS (
    UPDATE horsies_tasks task
       SET status = 'CANCELLED', claimed = false, claim_expires_at = NULL, failed_at = statement_timestamp(),
           result = $2::text, error_code = 'TASK_CANCELLED', failed_reason = $3::text,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM held
     WHERE task.id = ANY ($1::text[]) AND task.id = held.id
    RETURNING task.id, held.status AS before_status, task.queue_name, task.retry_count, task.claimed_by_worker_id,
              task.claimed_at, task.started_at, task.failed_at, task.worker_hostname, task.worker_pid,
              task.worker_process_name
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT id,
           GREATEST(retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = ended.id
                                   ORDER BY attempt DESC LIMIT 1)) + 1,
           'WORKER_FAILURE', false, COALESCE(started_at, claimed_at, failed_at), failed_at, 'TASK_CANCELLED', $3::text,
           $3::text, claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name
      FROM ended
     WHERE before_status = 'RUNNING'
), told AS MATERIALIZED (
    -- The worker sees that it has lost the task, and stops its code.
    SELECT pg_notify('horsies_operator', claimed_by_worker_id)
      FROM ended
     WHERE before_status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
     UNION ALL
    SELECT pg_notify('task_queue_' || queue_name, 'capacity:' || min(id))
      FROM ended
     WHERE before_status IN ('CLAIMED', 'RUNNING') AND octet_length(queue_name) <= 52
     GROUP BY queue_name
)
SELECT id, before_status FROM ended WHERE (SELECT count(*) FROM told) >= 0
