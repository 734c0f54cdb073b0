-- starting.start; the token and CLAIMED, the lease not run out, good_until not passed, its workflow not paused
-- ($1 worker, $2 tasks, $3 claimed at, $4 pids, $5 host names, $6 process names)
-- One task 0.21 ms, of which the disk takes 0.12; 10 tasks 0.30 ms; 50 tasks 0.72 ms; 200 tasks 2.1 ms.
UPDATE horsies_tasks task
   SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = statement_timestamp(),
       worker_pid = token.pid, worker_hostname = token.hostname, worker_process_name = token.process_name,
       finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::text[]) WITH ORDINALITY
       AS token (id, claimed_at, pid, hostname, process_name, number)
       -- The primary key must be the only index that fits. Where statistics are from a quiet hour, ix_horsies_tasks_in_flight
       -- looks empty and the plan reads all that is in flight for each token (50 tasks: 4.6 ms), so the status stands inside
       -- a CASE, where no predicate of an index can be proved from it. The array bounds what is read whatever the statistics
       -- say, and as the planner cannot see into a CASE, it expects ten rows and hashes the tokens instead of looping over
       -- them (200 tasks: 2.1 ms instead of 8.1 ms).
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                 -- The statement may have waited for the row; its own time would be too early to judge by.
            THEN task.status = 'CLAIMED' AND task.claim_expires_at > clock_timestamp()
                 AND (task.good_until IS NULL OR task.good_until > clock_timestamp())
                 AND CASE WHEN task.is_workflow_task THEN NOT horsies_is_held(task.id) ELSE true END
                 -- Asked again because the reply was lost: it is ours and user code has not begun.
                 OR task.status = 'RUNNING' END
RETURNING token.number
