-- name: acknowledge
-- verbs/workers/acknowledge.py; the worker has losses or crashed tasks that are not acknowledged yet
-- ($1 to $6 as in `operation`, $7 workers, $8 the audit rows that this undoes)
-- Writes only the audit row: with it the worker's losses and crashed tasks count as handled.
WITH /* crashed */, /* operation */, open AS (
    SELECT asked.worker_id, asked.undoes
      FROM unnest($7::text[], $8::bigint[]) AS asked (worker_id, undoes)
     WHERE EXISTS (SELECT FROM crashed WHERE crashed.claimed_by_worker_id = asked.worker_id)
        OR (SELECT max(taken_at) FROM horsies_worker_losses WHERE worker_id = asked.worker_id)
           > COALESCE((SELECT max(acted_at) FROM horsies_operator_actions
                        WHERE target_kind = 'worker' AND target_id = asked.worker_id AND outcome = 'applied'
                          AND verb IN ('acknowledge', 'recover')), '-infinity')
), audited AS (
    SELECT 'worker' AS kind, worker_id AS id, 'applied' AS outcome, NULL AS detail, NULL::jsonb AS before,
           NULL::jsonb AS after, undoes, 0 AS number
      FROM open
     UNION ALL
    SELECT 'task', crashed.id, 'applied', 'crashed with ' || worker_id, NULL, NULL, NULL, 1
      FROM crashed
      JOIN open ON open.worker_id = crashed.claimed_by_worker_id
), /* audit */
SELECT worker_id, pg_notify('horsies_operator', worker_id) FROM open
