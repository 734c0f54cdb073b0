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

-- name: renew
-- claim_token.renew; CLAIMED by this worker
-- ($1 worker, $2 lease in ms, $3 longest age of a claim in ms, $4 host name, $5 pid)
WITH mine AS MATERIALIZED (
    SELECT id, claimed_at, claim_expires_at
      FROM horsies_tasks
     WHERE claimed AND claimed_by_worker_id = $1 AND status = 'CLAIMED'
           -- Another statement of this worker holds such a row to start or release it. To wait for it, while it waits
           -- for another row that is locked here, would be a deadlock; and an operator's open transaction would let all
           -- other leases expire.
       FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE horsies_tasks task
       SET claim_expires_at = statement_timestamp() + $2 * interval '1 ms', updated_at = statement_timestamp()
     WHERE task.id = ANY (ARRAY(SELECT id FROM mine
                                 WHERE claimed_at > statement_timestamp() - $3 * interval '1 ms'
                                       -- Any worker may release an expired claim at any moment: it must not be renewed.
                                   AND claim_expires_at > statement_timestamp()))
), beats AS (
    INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
    SELECT id, $1, 'claimer', statement_timestamp(), $4, $5 FROM mine
)
SELECT id, claimed_at FROM mine

-- name: beat
-- claim_token.beat; the token and RUNNING ($1 worker, $2 tasks, $3 claimed at, $4 pids of the children, $5 host name)
WITH running AS MATERIALIZED (
    SELECT token.id, token.pid, token.number
      FROM unnest($2::text[], $3::timestamptz[], $4::integer[]) WITH ORDINALITY AS token (id, claimed_at, pid, number)
      JOIN horsies_tasks task ON task.id = token.id
     WHERE task.id = ANY ($2)
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
), beats AS (
    INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
    SELECT id, $1 || ':' || pid, 'runner', statement_timestamp(), $5, pid FROM running
)
SELECT number FROM running

-- name: store_progress
-- claim_token.store_progress; the token and RUNNING; of a run that has ended, the attempt that this worker has stored
-- ($1 worker, $2 tasks, $3 claimed at, $4 ended, $5 done, $6 totals, $7 units, $8 rates per s, $9 usual s between two
-- changes)
-- No row of horsies_tasks is locked. A claim that moves after it was read does no harm: the row is that of the old run.
-- 1 task 0.15 ms, 1 000 tasks 6 ms (tests/bench/test_progress_cost.py).
INSERT INTO horsies_progress AS stored (task_id, started_at, done, total, unit, rate, gap_s, reported_at)
SELECT token.id, run.started_at, token.done, token.total, token.unit, token.rate, token.gap_s, statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::boolean[], $5::double precision[], $6::double precision[], $7::text[],
              $8::double precision[], $9::double precision[])
       AS token (id, claimed_at, ended, done, total, unit, rate, gap_s)
 CROSS JOIN LATERAL (
        SELECT COALESCE(started_at, claimed_at) AS started_at
          FROM horsies_tasks
         WHERE id = token.id AND NOT token.ended
           AND CASE WHEN status = 'RUNNING' AND claimed_by_worker_id = $1 THEN claimed_at = token.claimed_at END
         UNION ALL
        (SELECT started_at FROM horsies_task_attempts
          WHERE task_id = token.id AND token.ended AND worker_id = $1 AND started_at >= token.claimed_at
          ORDER BY attempt LIMIT 1)) run
       -- Progress need not survive a crash of the server, so the commit does not wait for the disk.
 WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ON CONFLICT (task_id, started_at) DO UPDATE
   SET done = EXCLUDED.done, total = EXCLUDED.total, unit = EXCLUDED.unit, rate = EXCLUDED.rate,
       gap_s = EXCLUDED.gap_s, reported_at = EXCLUDED.reported_at
