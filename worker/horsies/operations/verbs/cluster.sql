-- name: drain
-- verbs/cluster.py; no order to drain yet ($1 to $6 as in `operation`, $7 workers, $8 the audit rows that
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
-- verbs/cluster.py, preview; reads only
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

-- name: resume_worker
-- verbs/cluster.py; draining by the same order as the operator saw
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

-- name: recovered
-- verbs/cluster.py, in the transaction that has recovered these tasks of a worker; writes only the audit rows,
-- and notifies the worker, in case it is alive
-- ($1 to $6 as in `operation`, $7 worker, $8 the results for all, $9 tasks, and as they were: $10 statuses,
-- $11 claimed at, $12 retry counts)
WITH /* operation */, audited AS (
    SELECT 'worker' AS kind, $7::text AS id, 'applied' AS outcome, $8::text AS detail, NULL::jsonb AS before,
           NULL::jsonb AS after, NULL::bigint AS undoes, 0 AS number
     UNION ALL
    SELECT 'task', task.id, 'applied', 'with everything that ' || $7::text || ' held',
           jsonb_build_object('status', was.status, 'claimed_by_worker_id', $7::text, 'claimed_at', was.claimed_at,
                              'retry_count', was.retry_count),
           jsonb_build_object('status', task.status, 'retry_count', task.retry_count), NULL, 1
      FROM unnest($9::text[], $10::text[], $11::timestamptz[], $12::integer[])
           AS was (id, status, claimed_at, retry_count)
      JOIN horsies_tasks task ON task.id = was.id
), /* audit */
SELECT pg_notify('horsies_operator', $7::text)

-- name: acknowledge
-- verbs/cluster.py; the worker has losses, or crashed tasks of those that the operator saw, that are not
-- acknowledged yet
-- ($1 to $6 as in `operation`, $7 workers, $8 the audit rows that this undoes, $9 the crashed tasks that were seen, $10
-- their task name if only these are acknowledged, and not the death)
-- Writes only audit rows: by that of a worker its losses count as handled, by that of a task this task.
WITH /* crashed */, /* operation */, asked AS (
    SELECT * FROM unnest($7::text[], $8::bigint[]) AS asked (worker_id, undoes)
), seen AS MATERIALIZED (
    SELECT id, asked.worker_id
      FROM crashed
      JOIN asked ON asked.worker_id = crashed.claimed_by_worker_id
     WHERE id = ANY ($9::text[])
), open AS (
    SELECT asked.worker_id, asked.undoes
      FROM asked
     WHERE EXISTS (SELECT FROM seen WHERE seen.worker_id = asked.worker_id)
        OR $10::text IS NULL
           AND (SELECT max(taken_at) FROM horsies_worker_losses WHERE worker_id = asked.worker_id)
               > COALESCE((SELECT max(acted_at) FROM horsies_operator_actions action
                            WHERE action.target_id = asked.worker_id AND /* knows_of_death */), '-infinity')
), audited AS (
    SELECT 'worker' AS kind, worker_id AS id, 'applied' AS outcome, NULL AS detail, NULL::jsonb AS before,
           NULL::jsonb AS after, undoes, 0 AS number
      FROM open
     WHERE $10 IS NULL
     UNION ALL
    SELECT 'task', id, 'applied', concat('crashed with ', worker_id, '; acknowledged for ' || $10 || ' only'),
           NULL, NULL, NULL, 1
      FROM seen
), /* audit */
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM open

-- name: take_acknowledgements_back
-- operations/undo.py; no operator action on the worker or task since
-- ($1 to $6 as in `operation`, $7 the audit rows that this undoes)
-- Writes only audit rows: with them losses and crashed tasks are reported again.
WITH /* operation */, open AS (
    SELECT id, target_kind, target_id
      FROM horsies_operator_actions done
     WHERE id = ANY ($7::bigint[]) AND verb = 'acknowledge' AND outcome = 'applied'
       AND NOT EXISTS (SELECT FROM horsies_operator_actions later
                        WHERE later.target_kind = done.target_kind AND later.target_id = done.target_id
                          AND later.id > done.id AND later.outcome = 'applied')
), audited AS (
    SELECT target_kind AS kind, target_id AS id, 'applied' AS outcome, NULL AS detail, NULL::jsonb AS before,
           NULL::jsonb AS after, id AS undoes, id AS number
      FROM open
), /* audit */
SELECT id FROM open

-- name: pause_queue
-- verbs/cluster.py; not paused yet ($1 to $6 as in `operation`, $7 queues, $8 the audit rows that this
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

-- name: resume_queue
-- verbs/cluster.py; paused by the same order as the operator saw; wakes the workers of the queue
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
