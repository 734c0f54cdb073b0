-- operations/queues.py; not paused so far
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
