-- finishing.mark_finalizing; the token and RUNNING; heap-only, as no index knows these columns
-- ($1 worker, $2 tasks, $3 claimed at)
UPDATE horsies_tasks task
   SET finalizing_at = statement_timestamp(), finalizing_by_worker_id = $1, updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END
RETURNING token.number
