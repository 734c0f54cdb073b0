-- claiming.release; the token and CLAIMED: user code has not been started ($1 worker, $2 tasks, $3 claimed at)
WITH released AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
           updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
    RETURNING token.number, task.queue_name
)
SELECT number
  FROM released
       -- Once for each queue: another worker takes them now, not at its next poll. A longer name is no channel.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:released'))
          FROM (SELECT DISTINCT queue_name AS name FROM released WHERE octet_length(queue_name) <= 52) queue) >= 0
