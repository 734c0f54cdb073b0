-- name: resume_worker
-- verbs/workers/resume.py; draining by the same order as the operator saw
-- ($1 to $6 as in `operation`, $7 workers, $8 the audit rows that this undoes, $9 draining since)
WITH /* operation */, taken AS (
    -- In the order of the ids, so that two operators do not deadlock.
    SELECT worker_id, draining_since, ordered_by, reason, asked.undoes, asked.number
      FROM horsies_worker_orders
      JOIN unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (worker_id, undoes, since, number) USING (worker_id)
     WHERE draining_since = asked.since
     ORDER BY worker_id
       FOR NO KEY UPDATE OF horsies_worker_orders
), given AS (
    UPDATE horsies_worker_orders orders
       SET draining_since = NULL, ordered_by = operation.os_user || '@' || operation.os_host, reason = operation.reason,
           updated_at = statement_timestamp()
      FROM taken, operation
     WHERE orders.worker_id = taken.worker_id
    RETURNING orders.worker_id
), audited AS (
    SELECT 'worker' AS kind, worker_id AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('draining_since', draining_since, 'ordered_by', ordered_by, 'reason', reason) AS before,
           jsonb_build_object('draining_since', NULL) AS after, undoes, number
      FROM given
      JOIN taken USING (worker_id)
), /* audit */
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM given
