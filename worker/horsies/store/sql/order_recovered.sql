-- operations/workers.py, in the transaction that has recovered these tasks of a worker; writes only the trace, and tells the
-- worker, should it live after all
-- ($1 operation, $2 worker, $3 tasks, and as they were: $4 statuses, $5 claimed at, $6 retry counts; $7 what became of them
--  all, $8 OS user, $9 OS host, $10 reason)
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
