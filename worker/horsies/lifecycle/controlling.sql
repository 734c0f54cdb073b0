-- name: control_pause
-- controlling.pause; RUNNING, with all RUNNING below it; under the family's lock ($1 workflow)
WITH RECURSIVE below AS (
    SELECT id FROM horsies_workflows WHERE id = $1 AND status = 'RUNNING'
     UNION
    SELECT child.id FROM below JOIN horsies_workflows child ON child.parent_workflow_id = below.id
)
UPDATE horsies_workflows
   SET status = 'PAUSED', updated_at = statement_timestamp()
 WHERE id = ANY (ARRAY(SELECT id FROM below)) AND status = 'RUNNING'
RETURNING id

-- name: control_resume
-- controlling.resume; PAUSED, with all PAUSED below it; under the family's lock ($1 workflow)
WITH RECURSIVE below AS (
    SELECT id FROM horsies_workflows WHERE id = $1 AND status = 'PAUSED'
     UNION
    SELECT child.id FROM below JOIN horsies_workflows child ON child.parent_workflow_id = below.id
)
UPDATE horsies_workflows
   SET status = 'RUNNING', updated_at = statement_timestamp()
 WHERE id = ANY (ARRAY(SELECT id FROM below)) AND status = 'PAUSED'
RETURNING id

-- name: control_notify_queues
-- controlling.resume, afterwards: notifies the queues of tasks that stayed unclaimed during the pause ($1 workflows)
-- No trigger reports a resumed workflow, and each worker would wait for its next poll.
WITH woken AS (
    SELECT queue_name, 'resume:workflow' AS notice
      FROM horsies_workflow_tasks
     WHERE workflow_id = ANY ($1::text[]) AND status IN ('ENQUEUED', 'RUNNING') AND task_id IS NOT NULL
)
SELECT /* queues_notified */

-- name: control_notify_builders
-- controlling.resume, reconciling.reconcile: notifies workers of READY nodes whose child workflow is to be built
-- ($1 workflows)
SELECT count(pg_notify('horsies_workflow_ready', waiting.workflow_id))
  FROM (SELECT DISTINCT workflow_id
          FROM horsies_workflow_tasks
         WHERE workflow_id = ANY ($1::text[]) AND status = 'READY' AND is_subworkflow) waiting

-- name: control_cancel
-- controlling.cancel; PENDING, RUNNING or PAUSED, with all that is open below; under the family's lock ($1 workflow)
WITH RECURSIVE below AS (
    SELECT id FROM horsies_workflows WHERE id = $1 AND status IN /* open_workflows */
     UNION
    SELECT child.id FROM below JOIN horsies_workflows child ON child.parent_workflow_id = below.id
)
UPDATE horsies_workflows
   SET status = 'CANCELLED', completed_at = statement_timestamp(), updated_at = statement_timestamp()
 WHERE id = ANY (ARRAY(SELECT id FROM below)) AND status IN /* open_workflows */
RETURNING id

-- name: control_live_tasks
-- controlling.cancel; reads only: tasks of nodes that have not ended ($1 workflows)
SELECT task_id
  FROM horsies_workflow_tasks
 WHERE workflow_id = ANY ($1::text[]) AND status NOT IN /* ended_nodes */ AND task_id IS NOT NULL

-- name: control_cancel_nodes
-- controlling.cancel, after its tasks; not ended; under the family's lock
-- ($1 workflows, $2 tasks that were cancelled just now, $3 those of them that ran, $4 result of what ran, $5 results by
-- the status of a task that has none)
-- A task that had ended before, and whose outcome had not reached its node yet, keeps that outcome.
UPDATE horsies_workflow_tasks node
   SET status = CASE WHEN judged.cancelled THEN CASE WHEN judged.ran THEN 'FAILED' ELSE 'SKIPPED' END
                     WHEN judged.task_status = 'COMPLETED' AND judged.task_result IS NOT NULL THEN 'COMPLETED'
                     ELSE 'FAILED' END,
       result = CASE WHEN judged.cancelled THEN CASE WHEN judged.ran THEN $4::text END
                     ELSE COALESCE(judged.task_result, $5::jsonb ->> judged.task_status) END,
       started_at = COALESCE(judged.task_started_at, node.started_at),
       completed_at = statement_timestamp()
  FROM (SELECT mine.id, task.status AS task_status, task.result AS task_result, task.started_at AS task_started_at,
               task.status IS NULL OR task.status IN /* open_tasks */ OR task.id = ANY ($2::text[])
                   AS cancelled,
               mine.status = 'RUNNING' OR mine.task_id = ANY ($3::text[]) AS ran
          FROM horsies_workflow_tasks mine
          LEFT JOIN horsies_tasks task ON task.id = mine.task_id
         WHERE mine.workflow_id = ANY ($1::text[]) AND mine.status NOT IN /* ended_nodes */) judged
 WHERE node.workflow_id = ANY ($1::text[]) AND node.id = judged.id

-- name: control_end_tasks
-- controlling.cancel, skip_node, complete_node; PENDING, CLAIMED or RUNNING; under the family's lock
-- ($1 tasks, $2 result, $3 words)
WITH locked AS MATERIALIZED (
    -- If a worker is storing the outcome, this waits, finds the task ended, and does not change it.
    SELECT id, status FROM horsies_tasks
     WHERE id = ANY ($1::text[]) AND status IN /* open_tasks */
     ORDER BY id FOR NO KEY UPDATE
), ended AS (
    UPDATE horsies_tasks task
       SET status = 'CANCELLED', claimed = false, claim_expires_at = NULL, failed_at = statement_timestamp(),
           result = $2::text, error_code = 'TASK_CANCELLED', failed_reason = $3::text,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM locked
     WHERE task.id = ANY ($1::text[]) AND task.id = locked.id
    RETURNING task.id, locked.status AS before_status, task.queue_name, task.retry_count, task.claimed_by_worker_id,
              task.claimed_at, task.started_at, task.failed_at, task.worker_hostname, task.worker_pid,
              task.worker_process_name, task.enqueued_at
), runs AS (
    SELECT id, retry_count, 'WORKER_FAILURE' AS outcome, false AS will_retry,
           COALESCE(started_at, claimed_at, failed_at) AS started_at, failed_at AS finished_at,
           'TASK_CANCELLED' AS error_code, $3::text AS error_message, $3::text AS failed_reason,
           claimed_by_worker_id AS worker_id, worker_hostname, worker_pid, worker_process_name, NULL AS output,
           enqueued_at
      FROM ended
     WHERE before_status = 'RUNNING'
), /* history */, taken AS (
    SELECT claimed_by_worker_id AS worker_id FROM ended WHERE before_status IN /* tasks_in_flight */
), woken AS (
    SELECT queue_name, 'capacity:cancelled' AS notice FROM ended WHERE before_status IN /* tasks_in_flight */
)
SELECT id, before_status FROM ended WHERE /* workers_notified */ AND /* queues_notified */
