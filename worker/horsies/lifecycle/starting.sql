-- name: start
-- starting.start; the token and CLAIMED, the lease not run out, good_until not passed, its workflow not paused
-- ($1 worker, $2 tasks, $3 claimed at, $4 pids, $5 host names, $6 process names)
-- One task 0.21 ms, of which the disk takes 0.12; 10 tasks 0.30 ms; 50 tasks 0.72 ms; 200 tasks 2.1 ms.
/* starting */
RETURNING token.number

-- name: start_capped
-- starting.start under caps that count only RUNNING tasks; as `start`, and horsies_room_to_run finds room
-- ($1 to $6 as in `start`, $7 queues of the tasks, $8 capped queues, $9 their caps)
WITH fitting AS MATERIALIZED (
    SELECT id FROM horsies_room_to_run($2::text[], $7::text[], $8::text[], $9::integer[]) AS id
), started AS (
    /* starting */
       AND task.id IN (SELECT id FROM fitting)
    RETURNING token.number
)
SELECT number, true AS fits FROM started
 UNION ALL
SELECT token.number, false
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
  JOIN horsies_tasks task ON task.id = token.id
 WHERE task.id = ANY ($2) AND task.id NOT IN (SELECT id FROM fitting)
   AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END

-- name: starting
-- fragment of `start` and `start_capped`: the token and CLAIMED, the lease not run out, good_until not passed, its workflow
-- not paused
UPDATE horsies_tasks task
   SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = statement_timestamp(),
       worker_pid = token.pid, worker_hostname = token.hostname, worker_process_name = token.process_name,
       finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::text[]) WITH ORDINALITY
       AS token (id, claimed_at, pid, hostname, process_name, number)
       -- The primary key must be the only index that fits. With statistics from a quiet hour,
       -- ix_horsies_tasks_in_flight looks empty and the plan reads all that is in flight for each token (50 tasks: 4.6
       -- ms), so the status is inside a CASE, from which no predicate of an index can be proved. The array limits what
       -- is read. As the planner cannot estimate a CASE, it expects ten rows, and hashes the tokens instead of looping
       -- over them (200 tasks: 2.1 ms instead of 8.1 ms).
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                 -- The statement may have waited for the row, and its own time would then be too early.
            THEN task.status = 'CLAIMED' AND task.claim_expires_at > clock_timestamp()
                 AND (task.good_until IS NULL OR task.good_until > clock_timestamp())
                 AND CASE WHEN task.is_workflow_task THEN NOT horsies_is_held(task.id) ELSE true END
                 -- Repeated because the reply was lost: the task belongs to this worker and user code has not been
                 -- called.
                 OR task.status = 'RUNNING' END

-- name: expire_claimed
-- starting.start, for tasks that `start` did not change; the token and CLAIMED, good_until passed
-- ($1 worker, $2 tasks, $3 claimed at, $4 results)
UPDATE horsies_tasks task
   SET status = 'EXPIRED', claimed = false, claim_expires_at = NULL, failed_at = statement_timestamp(),
       result = token.result, error_code = 'TASK_EXPIRED', updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::text[]) WITH ORDINALITY AS token (id, claimed_at, result, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
            THEN task.status = 'CLAIMED' AND task.good_until <= clock_timestamp() END
RETURNING token.number

-- name: release_paused
-- starting.start, for tasks that `start` did not change; the token and CLAIMED, its workflow PAUSED or resumed a moment
-- ago: the node keeps its task
-- ($1 worker, $2 tasks, $3 claimed at)
WITH released AS (
    UPDATE horsies_tasks task
       SET /* back_in_queue */, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                     -- Includes workflows resumed just now: an unreleased task would wait without an owner until its lease expires.
                THEN task.is_workflow_task
                     AND (task.claim_expires_at > clock_timestamp() OR horsies_is_held(task.id)) END
    RETURNING token.number, task.queue_name
), woken AS (
    SELECT queue_name, 'capacity:released' AS notice FROM released
)
SELECT number FROM released WHERE /* queues_notified */
