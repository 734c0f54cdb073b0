-- name: recovered
-- verbs/workers/recover.py, in the transaction that has recovered these tasks of a worker; writes only the audit rows,
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
