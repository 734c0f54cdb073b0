-- scene.py, after settle.sql: what operators did since yesterday, and the workflow and worker that failed meanwhile.
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome, detail, os_user,
                                      os_host, db_role, reason, filter, before_state, after_state)
SELECT now() - ago * interval '1 min', ('00000000-0000-4000-8000-0000000001' || lpad(number::text, 2, '0'))::uuid, verb, kind,
       CASE kind WHEN 'task' THEN pictures.id_of(now() - (ago + n) * interval '1 min', 'done' || number || '-' || n)
                 ELSE target END,
       CASE WHEN n > applied THEN 'refused' ELSE 'applied' END,
       CASE WHEN n > applied THEN 'it is COMPLETED now, try 2' END, who, host, 'horsies', reason, filter,
       before::jsonb, CASE WHEN n <= applied THEN after::jsonb END
  FROM (VALUES
        (1, 8, 'requeue', 'task', NULL, 45, 4, 'ops', 'bastion', 'rate limit was lifted',
         'status:failed error:RATE_LIMITED since:2h', '{"status": "FAILED", "retry_count": 3}',
         '{"status": "PENDING", "retry_count": 4}'),
        (2, 12, 'pause', 'queue', 'news', 1, 0, 'ops', 'bastion', 'the mail provider moves house, until 12:30', NULL,
         '{"paused_at": null}', '{"paused_at": "2026-11-18T11:52:31Z"}'),
        (3, 47, 'retry-now', 'task', NULL, 3, 0, 'mara', 'mara-laptop', 'the warehouse answers again', NULL,
         '{"status": "PENDING", "retry_count": 2}', '{"status": "PENDING", "retry_count": 2}'),
        (4, 303, 'drain', 'worker', 'web-3-81-77aa', 1, 0, 'deploy', 'ci-7', 'release 1.0.0', NULL,
         '{"draining_since": null}', '{"draining_since": "2026-11-18T07:01:31Z"}'),
        (5, 612, 'cancel', 'task', NULL, 212, 0, 'jan', 'bastion', 'newsletter went out twice', 'queue:news status:pending',
         '{"status": "PENDING", "retry_count": 0}', '{"status": "CANCELLED", "retry_count": 0}'))
       AS told (number, ago, verb, kind, target, applied, refused, who, host, reason, filter, before, after)
 CROSS JOIN LATERAL generate_series(1, applied + refused) n
 ORDER BY number DESC, n;
INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome, os_user, os_host, db_role,
                                      reason, undoes, before_state, after_state)
SELECT now() - interval '601 min', '00000000-0000-4000-8000-000000000199', 'undo', 'task', target_id, 'applied', 'jan', 'bastion',
       'horsies', 'wrong filter, these are this week''s', id, after_state, before_state
  FROM horsies_operator_actions WHERE operation_id = '00000000-0000-4000-8000-000000000105';
RESET session_replication_role;
INSERT INTO horsies_worker_losses (worker_id, taken_at, failed, retried, returned)
VALUES ('web-3-81-77aa', now() - interval '289 min', '{a,b}', '{c}', '{d,e,f,g}');
