-- name: diagnose_task
-- findings/why.py; reads only: with its workflow, if that is PAUSED ($1 task)
SELECT task.id, task.status, task.task_name, task.queue_name, task.priority, task.enqueued_at::timestamptz,
       task.next_retry_at::timestamptz, task.good_until::timestamptz, task.retry_count, task.max_retries,
       paused.id AS workflow_id, paused.name AS workflow_name, paused.failed AS workflow_failed
  FROM horsies_tasks task
  LEFT JOIN LATERAL (SELECT workflow.id, workflow.name, workflow.error IS NOT NULL AS failed
                       FROM horsies_workflow_tasks node
                       JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                      WHERE node.task_id = task.id AND CASE workflow.status WHEN 'PAUSED' THEN true END
                      LIMIT 1) paused ON true
 WHERE task.id = $1

-- name: diagnose_claim
-- findings/why.py; reads only: where a claim waits, and what has run longest there; of runs that were started together
-- the first in the order of the claim ($1 task, $2 for how long it has waited at least, in s)
SELECT task.claimed_by_worker_id AS worker_id, task.claimed_at::timestamptz, longest.*
  FROM horsies_tasks task
 CROSS JOIN LATERAL (
        SELECT id, task_name, started_at::timestamptz
          FROM horsies_tasks
         WHERE status = 'RUNNING' AND started_at IS NOT NULL AND claimed_by_worker_id = task.claimed_by_worker_id
         ORDER BY horsies_tasks.started_at, claimed_at, priority, enqueued_at, id
         LIMIT 1) longest
 WHERE task.id = $1 AND task.status = 'CLAIMED' AND task.claimed_at < now() - $2::float8 * interval '1 s'

-- name: diagnose_used
-- findings/why.py; reads only: the tasks under a cap, as the next claim counts them, which first releases expired
-- claims ($1 queue)
SELECT count(*) FILTER (WHERE queue_name = $1) AS of_queue, count(*) AS of_cluster
  FROM horsies_tasks
 WHERE status IN /* tasks_in_flight */
   AND (status = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at
                              AND (claim_expires_at IS NULL OR claim_expires_at >= now()))

-- name: diagnose_ahead
-- findings/why.py; reads only. How many tasks of its queue are due and stand before it
-- ($1 queue, $2 priority, $3 enqueued at, $4 id, $5 how many to count)
-- Each priority in use is visited, as in `next_due`.
WITH RECURSIVE level AS (
    (SELECT priority FROM horsies_tasks
      WHERE status = 'PENDING' AND queue_name = $1 AND priority <= $2 ORDER BY priority LIMIT 1)
     UNION ALL
    SELECT next.priority
      FROM level
     CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks
                          WHERE status = 'PENDING' AND queue_name = $1 AND priority > level.priority AND priority <= $2
                          ORDER BY priority LIMIT 1) next
)
SELECT count(*)
  FROM (SELECT
          FROM level
         CROSS JOIN LATERAL (
                SELECT FROM horsies_tasks
                 WHERE status = 'PENDING' AND queue_name = $1 AND priority = level.priority AND enqueued_at <= now()
                   AND (enqueued_at, id) < (CASE level.priority WHEN $2 THEN $3::timestamptz ELSE 'infinity' END, $4)
                 LIMIT $5) before
         LIMIT $5) first_ones
