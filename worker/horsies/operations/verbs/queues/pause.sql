-- name: pause_queue
-- verbs/queues/pause.py; not paused yet ($1 to $6 as in `operation`, $7 queues, $8 the audit rows that this
-- undoes)
WITH /* operation */, paused AS (
    INSERT INTO horsies_queue_state AS queue (queue_name, paused_at, paused_by, reason, updated_at)
    SELECT asked.name, statement_timestamp(), operation.os_user || '@' || operation.os_host, operation.reason,
           statement_timestamp()
      FROM unnest($7::text[]) AS asked (name), operation
     ORDER BY asked.name
        ON CONFLICT (queue_name) DO UPDATE
       SET paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by, reason = EXCLUDED.reason,
           updated_at = EXCLUDED.updated_at
     WHERE queue.paused_at IS NULL
    RETURNING queue_name, paused_at
), audited AS (
    SELECT 'queue' AS kind, queue_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', NULL) AS before, jsonb_build_object('paused_at', paused_at) AS after,
           asked.undoes, asked.number
      FROM paused
      JOIN unnest($7::text[], $8::bigint[]) WITH ORDINALITY AS asked (queue_name, undoes, number) USING (queue_name)
), /* audit */
SELECT queue_name FROM paused
