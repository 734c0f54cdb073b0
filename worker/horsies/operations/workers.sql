-- name: order_drain
-- operations/workers.py; no order to drain yet
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

-- name: order_resume
-- operations/workers.py; draining by the same order as the operator saw
-- ($1 workers, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason,
--  $7 draining since)
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $7::timestamptz[]) AS asked (worker_id, undoes, since)
), taken AS (
    -- In the order of the ids, so that two operators do not deadlock.
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

-- name: order_acknowledge
-- operations/workers.py, over `crashed_tasks`; the worker has losses or crashed tasks that are not acknowledged yet
-- ($1 workers, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason)
-- Writes only the audit row: with it the worker's losses and crashed tasks count as handled.
, open AS (
    SELECT asked.worker_id, asked.undoes
      FROM unnest($1::text[], $2::bigint[]) AS asked (worker_id, undoes)
     WHERE EXISTS (SELECT FROM crashed WHERE crashed.claimed_by_worker_id = asked.worker_id)
        OR (SELECT max(taken_at) FROM horsies_worker_losses WHERE worker_id = asked.worker_id)
           > COALESCE((SELECT max(acted_at) FROM horsies_operator_actions
                        WHERE target_kind = 'worker' AND target_id = asked.worker_id AND outcome = 'applied'
                          AND verb IN ('acknowledge', 'recover')), '-infinity')
), audit AS (
    INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome, detail, os_user,
                                          os_host, reason, undoes)
    SELECT statement_timestamp(), $3::uuid, 'acknowledge', 'worker', worker_id, 'applied', NULL, $4::text, $5::text,
           $6::text, undoes
      FROM open
     UNION ALL
    SELECT statement_timestamp(), $3, 'acknowledge', 'task', crashed.id, 'applied', 'crashed with ' || worker_id, $4, $5,
           $6, NULL
      FROM crashed
      JOIN open ON open.worker_id = crashed.claimed_by_worker_id
)
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM open

-- name: order_recovered
-- operations/workers.py, in the transaction that has recovered these tasks of a worker; writes only the audit row, and
-- notifies the worker, in case it is alive
-- ($1 operation, $2 worker, $3 tasks, and as they were: $4 statuses, $5 claimed at, $6 retry counts;
-- $7 the results for all, $8 OS user, $9 OS host, $10 reason)
WITH audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason)
    SELECT $1::uuid, 'recover', 'worker', $2::text, 'applied', $7::text, NULL, NULL, $8::text, $9::text, $10::text
     UNION ALL
    SELECT $1::uuid, 'recover', 'task', task.id, 'applied', 'with everything that ' || $2::text || ' held',
           jsonb_build_object('status', was.status, 'claimed_by_worker_id', $2::text, 'claimed_at', was.claimed_at,
                              'retry_count', was.retry_count),
           jsonb_build_object('status', task.status, 'retry_count', task.retry_count), $8::text, $9::text, $10::text
      FROM unnest($3::text[], $4::text[], $5::timestamptz[], $6::integer[]) AS was (id, status, claimed_at, retry_count)
      JOIN horsies_tasks task ON task.id = was.id
)
SELECT pg_notify('horsies_operator', $2::text)

-- name: order_standing
-- operations/workers.py, at the preview and again before a recovery; reads only
-- ($1 workers, $2 finalizing_stale_threshold_ms if a worker does not report its own, $3 the silence of a dead worker in
-- ms, $4 interval of the snapshots in ms)
-- A sign of life is a snapshot, a beat for a task of the worker, a claim or a start. Silence is excused while a gap of
-- the pulse that has just ended explains it. Not while the gap lasts: if no worker is alive, an operator must not wait
-- for one.
SELECT asked.worker_id, newest.snapshot_at, COALESCE(held.claimed, 0) AS claimed, COALESCE(held.running, 0) AS running,
       GREATEST(newest.snapshot_at, held.last_act) AS last_sign,
       extract(epoch FROM statement_timestamp() - GREATEST(newest.snapshot_at, held.last_act))::float8 AS silent_s,
       given.draining_since, given.ordered_by,
       CASE WHEN jsonb_typeof(newest.recovery_config -> 'finalizing_stale_threshold_ms') = 'number'
            THEN (newest.recovery_config -> 'finalizing_stale_threshold_ms')::integer ELSE $2::integer END AS finalizing_ms,
       statement_timestamp() AS now,
       COALESCE(GREATEST(newest.snapshot_at, held.last_act) >= horsies_silent_before($3, $4)
                AND EXISTS (SELECT FROM horsies_pulse
                             WHERE beaten_at >= statement_timestamp() - horsies_harmless_gap($3, $4)), false) AS excused
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (worker_id, number)
  LEFT JOIN LATERAL (
        -- Not "= asked.worker_id", which would allow a plan that reads back in time through the snapshots of all
        -- workers.
        SELECT worker_id, snapshot_at, recovery_config FROM horsies_worker_states WHERE worker_id >= asked.worker_id
         ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest ON newest.worker_id = asked.worker_id
  LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE task.status = 'CLAIMED') AS claimed,
               count(*) FILTER (WHERE task.status = 'RUNNING') AS running,
               max(GREATEST(task.claimed_at, task.started_at, beat.sent_at)) AS last_act
          FROM horsies_tasks task
          LEFT JOIN LATERAL (
                SELECT sent_at FROM horsies_heartbeats
                 WHERE task_id = task.id AND sent_at >= task.claimed_at
                   AND role = CASE task.status WHEN 'CLAIMED' THEN 'claimer' ELSE 'runner' END
                 ORDER BY sent_at DESC LIMIT 1) beat ON true
         WHERE task.status IN ('CLAIMED', 'RUNNING') AND task.claimed_by_worker_id = asked.worker_id) held ON true
  LEFT JOIN horsies_worker_orders given ON given.worker_id = asked.worker_id
 ORDER BY asked.number

-- name: order_known
-- operations/workers.py, for ids that were not given whole; reads only
-- Each worker id of the snapshots by one probe of ix_horsies_worker_states_worker_latest, and the owners of tasks.
WITH RECURSIVE told AS (
    (SELECT worker_id FROM horsies_worker_states ORDER BY worker_id LIMIT 1)
     UNION ALL
    SELECT next.worker_id
      FROM told
     CROSS JOIN LATERAL (SELECT worker_id FROM horsies_worker_states WHERE worker_id > told.worker_id
                          ORDER BY worker_id LIMIT 1) next
)
SELECT worker_id FROM told
 UNION
SELECT claimed_by_worker_id FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL
 ORDER BY worker_id

-- name: order_unserved
-- operations/workers.py, the preview of a drain; reads only
-- ($1 the workers to be drained, $2 how old the newest snapshot of a live worker may be in s)
SELECT queue
  FROM (SELECT DISTINCT ON (worker_id) worker_id, queues
          FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) alive
 CROSS JOIN LATERAL unnest(alive.queues) AS queue
  LEFT JOIN horsies_worker_orders given USING (worker_id)
 GROUP BY queue
HAVING bool_or(worker_id = ANY ($1)) AND NOT bool_or(worker_id <> ALL ($1) AND given.draining_since IS NULL)
 ORDER BY queue
