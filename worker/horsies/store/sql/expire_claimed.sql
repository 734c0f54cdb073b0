-- starting.start, for what start.sql has left; the token and CLAIMED, good_until passed
-- ($1 worker, $2 tasks, $3 claimed at, $4 results)
UPDATE horsies_tasks task
   SET status = 'EXPIRED', claimed = false, claim_expires_at = NULL, failed_at = statement_timestamp(),
       result = token.result, error_code = 'TASK_EXPIRED', updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::text[]) WITH ORDINALITY AS token (id, claimed_at, result, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
            THEN task.status = 'CLAIMED' AND task.good_until <= clock_timestamp() END
RETURNING token.number
