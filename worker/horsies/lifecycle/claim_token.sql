-- name: locked_rows
-- claim_token.locked_rows, after a lock timeout; the token; reads, and locks unlocked rows until the statement ends
-- ($1 worker, $2 tasks, $3 claimed at)
-- A row with another token is not listed: no statement with this token would wait for it.
WITH free AS MATERIALIZED (
    SELECT id FROM horsies_tasks WHERE id = ANY ($2) FOR NO KEY UPDATE SKIP LOCKED
), holders AS MATERIALIZED (
    SELECT lock.transactionid, session.pid, session.application_name
      FROM pg_locks lock
      JOIN pg_stat_activity session ON session.pid = lock.pid
     WHERE lock.locktype = 'transactionid' AND lock.granted
)
SELECT token.number, holders.pid, holders.application_name
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
  JOIN horsies_tasks task ON task.id = token.id
       -- If several sessions share the lock, xmax is no transaction id, and no holder is named.
  LEFT JOIN holders ON holders.transactionid = task.xmax
 WHERE task.id = ANY ($2) AND task.id NOT IN (SELECT id FROM free)
   AND CASE WHEN task.status IN /* tasks_in_flight */ AND task.claimed_by_worker_id = $1
            THEN task.claimed_at = token.claimed_at END
