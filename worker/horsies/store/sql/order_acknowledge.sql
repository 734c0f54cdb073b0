-- operations/workers.py, over crashed_tasks.sql; something was taken from the worker, or crashed with it, that is not
-- acknowledged yet
-- ($1 workers, $2 the audit rows that this undoes, $3 operation, $4 OS user, $5 OS host, $6 reason)
-- Writes the trace and nothing else: by it the worker's losses and crashed tasks count as handled.
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
