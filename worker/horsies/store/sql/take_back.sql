-- claiming.take_back; CLAIMED or RUNNING by this worker, and the token is none of those that it holds
-- ($1 worker, $2 tasks it holds, $3 claimed at)
-- Not only what is claimed, so by ix_horsies_tasks_in_flight: that is everybody's, but this is asked after an accident.
WITH lost AS MATERIALIZED (
    SELECT id, claimed_at
      FROM horsies_tasks
     WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = $1
       AND (id, claimed_at) NOT IN (SELECT id, claimed_at FROM unnest($2::text[], $3::timestamptz[])
                                        AS held (id, claimed_at))
     ORDER BY id
       -- It waits for a row that is being changed: that may be the very statement whose reply was lost.
       FOR NO KEY UPDATE
), returned AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
           started_at = NULL, worker_pid = NULL, worker_hostname = NULL, worker_process_name = NULL,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM lost
     WHERE task.id = ANY (ARRAY(SELECT id FROM lost)) AND task.id = lost.id
       AND CASE WHEN task.status IN ('CLAIMED', 'RUNNING') AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = lost.claimed_at END
    RETURNING lost.id, lost.claimed_at, task.queue_name
)
SELECT id, claimed_at
  FROM returned
       -- As in release.sql.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:released'))
          FROM (SELECT DISTINCT queue_name AS name FROM returned WHERE octet_length(queue_name) <= 52) queue) >= 0
