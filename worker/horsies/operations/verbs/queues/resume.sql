-- name: resume_queue
-- verbs/queues/resume.py; paused by the same order as the operator saw; wakes the workers of the queue
-- ($1 to $6 as in `operation`, $7 queues, $8 the audit rows that this undoes, $9 paused at)
WITH /* operation */, taken AS (
    -- In the order of the names, so that two operators do not deadlock.
    SELECT queue_name, paused_at, paused_by, reason, asked.undoes, asked.number
      FROM horsies_queue_state
      JOIN unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (queue_name, undoes, since, number) USING (queue_name)
     WHERE paused_at = asked.since
     ORDER BY queue_name
       FOR NO KEY UPDATE OF horsies_queue_state
), resumed AS (
    UPDATE horsies_queue_state queue
       SET paused_at = NULL, paused_by = NULL, reason = NULL, updated_at = statement_timestamp()
      FROM taken
     WHERE queue.queue_name = taken.queue_name
    RETURNING queue.queue_name
), audited AS (
    SELECT 'queue' AS kind, queue_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', paused_at, 'paused_by', paused_by, 'reason', reason) AS before,
           jsonb_build_object('paused_at', NULL) AS after, undoes, number
      FROM resumed
      JOIN taken USING (queue_name)
), /* audit */, woken AS (
    SELECT queue_name, 'resumed' AS notice FROM resumed
)
SELECT queue_name FROM resumed WHERE /* queues_notified */
