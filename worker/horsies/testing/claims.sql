-- name: pass_time
-- testing/claims.py, to simulate the passing of time; PENDING ($1 queues, $2 seconds)
UPDATE horsies_tasks
   SET enqueued_at = enqueued_at - $2::double precision * interval '1 s',
       next_retry_at = next_retry_at - $2 * interval '1 s',
       good_until = good_until - $2 * interval '1 s', updated_at = statement_timestamp()
 WHERE status = 'PENDING' AND queue_name = ANY ($1::text[])
