-- operations/workers.py; draining by the same order as the operator saw
-- ($1 workers, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason,
--  $7 draining since)
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $7::timestamptz[]) AS asked (worker_id, undoes, since)
), taken AS (
    -- In the order of the ids, so that two operators do not wait for each other.
    SELECT worker_id, draining_since, ordered_by, reason, undoes
      FROM horsies_worker_orders
      JOIN asked USING (worker_id)
     WHERE draining_since = since
     ORDER BY worker_id
       FOR NO KEY UPDATE OF horsies_worker_orders
), given AS (
    UPDATE horsies_worker_orders orders
       SET draining_since = NULL, ordered_by = $4 || '@' || $5, reason = $6, updated_at = statement_timestamp()
      FROM taken
     WHERE orders.worker_id = taken.worker_id
    RETURNING orders.worker_id, taken.draining_since, taken.ordered_by, taken.reason, taken.undoes
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state, after_state,
                                          os_user, os_host, reason, undoes)
    SELECT $3, 'resume', 'worker', worker_id, 'applied',
           jsonb_build_object('draining_since', draining_since, 'ordered_by', ordered_by, 'reason', given.reason),
           jsonb_build_object('draining_since', NULL), $4, $5, $6, undoes
      FROM given
)
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM given
