-- operations/workers.py; no order to drain so far
-- ($1 workers, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason)
WITH given AS (
    INSERT INTO horsies_worker_orders AS orders (worker_id, draining_since, ordered_by, reason, updated_at)
    SELECT worker_id, statement_timestamp(), $4 || '@' || $5, $6, statement_timestamp()
      FROM unnest($1::text[]) AS asked (worker_id)
     ORDER BY worker_id
        ON CONFLICT (worker_id) DO UPDATE
       SET draining_since = EXCLUDED.draining_since, ordered_by = EXCLUDED.ordered_by, reason = EXCLUDED.reason,
           updated_at = EXCLUDED.updated_at
     WHERE orders.draining_since IS NULL
    RETURNING worker_id, draining_since
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state, after_state,
                                          os_user, os_host, reason, undoes)
    SELECT $3, 'drain', 'worker', worker_id, 'applied', jsonb_build_object('draining_since', NULL),
           jsonb_build_object('draining_since', draining_since), $4, $5, $6, asked.undoes
      FROM given
      JOIN unnest($1::text[], $2::bigint[]) AS asked (worker_id, undoes) USING (worker_id)
)
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM given
