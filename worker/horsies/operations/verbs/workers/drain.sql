-- name: drain
-- verbs/workers/drain.py; no order to drain yet ($1 to $6 as in `operation`, $7 workers, $8 the audit rows that
-- this undoes)
WITH /* operation */, given AS (
    INSERT INTO horsies_worker_orders AS orders (worker_id, draining_since, ordered_by, reason, updated_at)
    SELECT asked.worker_id, statement_timestamp(), operation.os_user || '@' || operation.os_host, operation.reason,
           statement_timestamp()
      FROM unnest($7::text[]) AS asked (worker_id), operation
     ORDER BY asked.worker_id
        ON CONFLICT (worker_id) DO UPDATE
       SET draining_since = EXCLUDED.draining_since, ordered_by = EXCLUDED.ordered_by, reason = EXCLUDED.reason,
           updated_at = EXCLUDED.updated_at
     WHERE orders.draining_since IS NULL
    RETURNING worker_id, draining_since
), audited AS (
    SELECT 'worker' AS kind, worker_id AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('draining_since', NULL) AS before,
           jsonb_build_object('draining_since', draining_since) AS after, asked.undoes, asked.number
      FROM given
      JOIN unnest($7::text[], $8::bigint[]) WITH ORDINALITY AS asked (worker_id, undoes, number) USING (worker_id)
), /* audit */
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM given

-- name: drain_unserved
-- verbs/workers/drain.py, preview; reads only
-- ($1 the workers to be drained, $2 how old the newest snapshot of a live worker may be in s)
SELECT queue
  FROM (SELECT DISTINCT ON (worker_id) worker_id, queues, processes
          FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) alive
 CROSS JOIN LATERAL unnest(alive.queues) AS queue
  LEFT JOIN horsies_worker_orders given USING (worker_id)
 WHERE processes > 0
 GROUP BY queue
HAVING bool_or(worker_id = ANY ($1)) AND NOT bool_or(worker_id <> ALL ($1) AND given.draining_since IS NULL)
 ORDER BY queue
