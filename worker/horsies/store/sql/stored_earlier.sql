-- finishing.stored_earlier; reads only
-- ($1 worker, $2 tasks, $3 claimed at, $4 outcomes, $5 will retry, $6 error codes, $7 error messages)
-- An end leaves its token in the row. What waits again has lost it: there the first attempt of ours since the claim tells.
SELECT token.number, attempt.will_retry, task.enqueued_at
  FROM unnest($2::text[], $3::timestamptz[], $4::text[], $5::boolean[], $6::text[], $7::text[])
       WITH ORDINALITY AS token (id, claimed_at, outcome, will_retry, error_code, error_message, number)
  JOIN horsies_tasks task ON task.id = token.id
 CROSS JOIN LATERAL (SELECT outcome, will_retry, error_code, error_message
                       FROM horsies_task_attempts
                      WHERE task_id = token.id AND worker_id = $1 AND started_at >= token.claimed_at
                      ORDER BY attempt LIMIT 1) attempt
 WHERE attempt.outcome = token.outcome
   AND (attempt.error_code, attempt.error_message) IS NOT DISTINCT FROM (token.error_code, token.error_message)
   AND CASE WHEN attempt.will_retry THEN token.will_retry
            ELSE task.status IN ('COMPLETED', 'FAILED') AND task.claimed_by_worker_id = $1
                 AND task.claimed_at = token.claimed_at END
