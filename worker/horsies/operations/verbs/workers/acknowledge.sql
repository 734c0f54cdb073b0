-- name: acknowledge
-- verbs/workers/acknowledge.py; the worker has losses, or crashed tasks of those that the operator saw, that are not
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
