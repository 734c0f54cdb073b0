-- recovering.requeue_stale_claims; the token, CLAIMED, and still no beat; a row that somebody holds is left for next time
-- ($1 tasks, $2 workers, $3 claimed at, $4 threshold in ms, $5 interval of the beats in ms)
WITH stale AS MATERIALIZED (
    SELECT task.id, task.claimed_by_worker_id
      FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS seen (id, worker_id, claimed_at)
      JOIN horsies_tasks task ON task.id = seen.id
     WHERE task.id = ANY ($1)
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id IS NOT DISTINCT FROM seen.worker_id
                     AND task.claimed_at IS NOT DISTINCT FROM seen.claimed_at
                THEN COALESCE((SELECT sent_at FROM horsies_heartbeats
                                WHERE task_id = task.id AND role = 'claimer' AND sent_at >= task.claimed_at
                                ORDER BY sent_at DESC LIMIT 1),
                              task.claimed_at, task.updated_at) < (SELECT horsies_silent_before($4, $5)) END
       FOR NO KEY UPDATE OF task SKIP LOCKED
), released AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
           updated_at = statement_timestamp()
     WHERE task.id = ANY (ARRAY(SELECT id FROM stale))
    RETURNING task.id, task.queue_name
), lost AS (
    -- A claim that went back keeps no trace of its worker: this is the only one.
    INSERT INTO horsies_worker_losses (worker_id, returned)
    SELECT claimed_by_worker_id, array_agg(id ORDER BY id) FROM stale
     WHERE claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
)
SELECT id
  FROM released
       -- Once for each queue, so that somebody takes them now. A longer name is no channel, and nobody listens to it.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:swept'))
          FROM (SELECT DISTINCT queue_name AS name FROM released WHERE octet_length(queue_name) <= 52) queue) >= 0
