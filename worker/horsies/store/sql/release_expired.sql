-- claiming.release_expired; CLAIMED, the lease has run out; a row that another session has locked is left out ($1 queues)
-- Their owner died between claim and start, or stands still. Its token is none any more: a start under it finds nothing.
WITH released AS (
    UPDATE horsies_tasks
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
           updated_at = statement_timestamp()
     WHERE id = ANY (ARRAY(SELECT id FROM horsies_tasks
                            WHERE status = 'CLAIMED' AND queue_name = ANY ($1::text[])
                              AND claim_expires_at < statement_timestamp()
                            LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING queue_name
)
SELECT count(*)
  FROM released
       -- As in release.sql.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:released'))
          FROM (SELECT DISTINCT queue_name AS name FROM released WHERE octet_length(queue_name) <= 52) queue) >= 0
