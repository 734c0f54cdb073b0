-- operations/queues.py; paused by the same order as the operator saw; wakes the workers of the queue
-- ($1 queues, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason,
--  $7 paused at)
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $7::timestamptz[]) AS asked (queue_name, undoes, since)
), taken AS (
    -- In the order of the names, so that two operators do not wait for each other.
    SELECT queue_name, paused_at, paused_by, reason, undoes
      FROM horsies_queue_state
      JOIN asked USING (queue_name)
     WHERE paused_at = since
     ORDER BY queue_name
       FOR NO KEY UPDATE OF horsies_queue_state
), resumed AS (
    UPDATE horsies_queue_state queue
       SET paused_at = NULL, paused_by = NULL, reason = NULL, updated_at = statement_timestamp()
      FROM taken
     WHERE queue.queue_name = taken.queue_name
    RETURNING queue.queue_name, taken.paused_at, taken.paused_by, taken.reason, taken.undoes
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state, after_state,
                                          os_user, os_host, reason, undoes)
    SELECT $3, 'resume', 'queue', queue_name, 'applied',
           jsonb_build_object('paused_at', paused_at, 'paused_by', paused_by, 'reason', resumed.reason),
           jsonb_build_object('paused_at', NULL), $4, $5, $6, undoes
      FROM resumed
)
SELECT queue_name, pg_notify('task_queue_' || queue_name, 'resumed') FROM resumed
