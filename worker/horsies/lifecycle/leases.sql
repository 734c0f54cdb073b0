-- name: renew
-- leases.renew; CLAIMED by this worker
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
                                       -- An expired claim is about to be released by any worker: it must not be
                                       -- renewed.
                                   AND claim_expires_at > statement_timestamp()))
), beats AS (
    INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
    SELECT id, $1, 'claimer', statement_timestamp(), $4, $5 FROM mine
)
SELECT id, claimed_at FROM mine

-- name: beat
-- leases.beat; the token and RUNNING ($1 worker, $2 tasks, $3 claimed at, $4 pids of the children, $5 host name)
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
