-- name: queue_state_known
-- operations/queues.py; reads only ($1 how old the newest snapshot of a worker that counts may be, in s)
WITH RECURSIVE used AS (
    (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' ORDER BY queue_name LIMIT 1)
     UNION ALL
    SELECT next.queue_name
      FROM used
     CROSS JOIN LATERAL (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' AND queue_name > used.queue_name
                          ORDER BY queue_name LIMIT 1) next
)
SELECT queue_name FROM used
 UNION
SELECT queue_name FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')
 UNION
SELECT queue_name FROM horsies_queue_state
 UNION
SELECT unnest(queues) FROM horsies_worker_states WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
 ORDER BY queue_name

-- name: queue_state_pause
-- operations/queues.py; not paused yet
-- ($1 queues, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason)
WITH paused AS (
    INSERT INTO horsies_queue_state AS queue (queue_name, paused_at, paused_by, reason, updated_at)
    SELECT name, statement_timestamp(), $4 || '@' || $5, $6, statement_timestamp()
      FROM unnest($1::text[]) AS asked (name)
     ORDER BY name
        ON CONFLICT (queue_name) DO UPDATE
       SET paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by, reason = EXCLUDED.reason,
           updated_at = EXCLUDED.updated_at
     WHERE queue.paused_at IS NULL
    RETURNING queue_name, paused_at
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state, after_state,
                                          os_user, os_host, reason, undoes)
    SELECT $3, 'pause', 'queue', queue_name, 'applied', jsonb_build_object('paused_at', NULL),
           jsonb_build_object('paused_at', paused_at), $4, $5, $6, asked.undoes
      FROM paused
      JOIN unnest($1::text[], $2::bigint[]) AS asked (queue_name, undoes) USING (queue_name)
)
SELECT queue_name FROM paused

-- name: queue_state_resume
-- operations/queues.py; paused by the same order as the operator saw; wakes the workers of the queue
-- ($1 queues, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason, $7 paused at)
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $7::timestamptz[]) AS asked (queue_name, undoes, since)
), taken AS (
    -- In the order of the names, so that two operators do not deadlock.
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

-- name: queue_state_read
-- operations/queues.py; reads only
-- ($1 queues, $2 how old the newest snapshot of a live worker may be in s, $3 up to how many waiting tasks are counted)
SELECT asked.queue, state.paused_at, state.paused_by, state.reason, waits.due, waits.later, flies.claimed, flies.running,
       (SELECT count(DISTINCT worker_id) FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s' AND asked.queue = ANY (queues)) AS workers
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (queue, number)
  LEFT JOIN horsies_queue_state state ON state.queue_name = asked.queue
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE enqueued_at <= statement_timestamp()) AS due,
               count(*) FILTER (WHERE enqueued_at > statement_timestamp()) AS later
          FROM (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = asked.queue
                 LIMIT $3) first_ones) waits
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE status = 'CLAIMED') AS claimed, count(*) FILTER (WHERE status = 'RUNNING') AS running
          FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') AND queue_name = asked.queue) flies
 ORDER BY asked.number
