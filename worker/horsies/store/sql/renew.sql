-- leases.renew; CLAIMED by this worker ($1 worker, $2 lease in ms, $3 longest age of a claim in ms, $4 host name, $5 pid)
WITH mine AS MATERIALIZED (
    SELECT id, claimed_at, claim_expires_at
      FROM horsies_tasks
     WHERE claimed AND claimed_by_worker_id = $1 AND status = 'CLAIMED'
           -- Whoever holds one is starting or releasing it. To wait for him, while he waits for another row that is locked
           -- here, would be a deadlock; and an operator's open transaction would let all other leases run out.
       FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE horsies_tasks task
       SET claim_expires_at = statement_timestamp() + $2 * interval '1 ms', updated_at = statement_timestamp()
     WHERE task.id = ANY (ARRAY(SELECT id FROM mine
                                 WHERE claimed_at > statement_timestamp() - $3 * interval '1 ms'
                                       -- One that has run out is about to be released by any worker: it must not
                                       -- come back.
                                   AND claim_expires_at > statement_timestamp()))
), beats AS (
    INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
    SELECT id, $1, 'claimer', statement_timestamp(), $4, $5 FROM mine
)
SELECT id, claimed_at FROM mine
