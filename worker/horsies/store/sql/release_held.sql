-- starting.start, for what start.sql has left; the token and CLAIMED, its workflow PAUSED or resumed a moment ago:
-- the node keeps its task
-- ($1 worker, $2 tasks, $3 claimed at)
WITH released AS (
    UPDATE horsies_tasks task
       SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
           updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                     -- Resumed since: not started by then, it would be nobody's until its lease has run out.
                THEN task.is_workflow_task
                     AND (task.claim_expires_at > clock_timestamp() OR horsies_is_held(task.id)) END
    RETURNING token.number, task.queue_name
)
SELECT number
  FROM released
       -- As in release.sql: what is taken back has made room.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:released'))
          FROM (SELECT DISTINCT queue_name AS name FROM released WHERE octet_length(queue_name) <= 52) queue) >= 0
