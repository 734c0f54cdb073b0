-- A small shop with a row in every table; run by hostile_rows.py.
INSERT INTO horsies_tasks (id, task_name, queue_name, status, args, kwargs, sent_at, enqueued_at, started_at,
       completed_at, failed_at, error_code, failed_reason, result, claimed, claimed_at, claimed_by_worker_id, retry_count,
       max_retries, next_retry_at, unique_key, worker_hostname, worker_pid, worker_process_name, task_options)
SELECT 't' || n, 'shop.mail_' || n % 3, 'mail', status, '["a"]', '{"to": "b", "deep": {"c": ["d"]}}',
       at, at, CASE WHEN n > 3 THEN at END, CASE WHEN status = 'COMPLETED' THEN at + interval '2 s' END,
       CASE WHEN status IN ('FAILED', 'EXPIRED', 'CANCELLED') THEN at + interval '1 s' END,
       CASE WHEN status = 'FAILED' THEN 'RATE_LIMITED' END, CASE WHEN status = 'FAILED' THEN 'no luck' END,
       CASE WHEN status = 'FAILED' THEN '{"err": {"error_code": "RATE_LIMITED", "message": "no", "data": {"traceback": '
                 || '"Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: no"}}}'
            WHEN status = 'COMPLETED' THEN '{"ok": {"sent": "yes"}}' END,
       status IN ('CLAIMED', 'RUNNING'), CASE WHEN n > 2 THEN at END, CASE WHEN n > 2 THEN 'w' || n % 2 END, n % 3, 3,
       CASE WHEN n = 2 THEN now() + interval '40 s' END, 'k' || n, 'host', 7, 'child', '{"retry_policy": {"kind": "x"}}'
  FROM unnest(ARRAY['PENDING', 'PENDING', 'CLAIMED', 'RUNNING', 'RUNNING', 'COMPLETED', 'FAILED', 'FAILED', 'CANCELLED',
                    'EXPIRED', 'FAILED', 'COMPLETED']) WITH ORDINALITY AS made (status, n)
 CROSS JOIN LATERAL (SELECT now() - n * interval '5 s' AS at) AS moment;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at, error_code, error_message,
       failed_reason, worker_id, worker_hostname, worker_pid, worker_process_name, output)
SELECT 't' || n, 1, 'FAILED', now() - interval '90 s', now() - interval '80 s', 'RATE_LIMITED', 'too many', 'no luck', 'w1',
       'host', 7, 'child', 'printed' FROM generate_series(4, 11) AS n;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, hostname) VALUES ('t4', 'w0', 'runner', 'host');
INSERT INTO horsies_progress (task_id, started_at, done, total, unit, rate, reported_at)
SELECT id, started_at, 3, 9, 'rows', 1, now() FROM horsies_tasks WHERE status = 'RUNNING';
INSERT INTO horsies_duplicate_sends VALUES ('t1', 1, 3, now());
INSERT INTO horsies_workflows (id, name, status, started_at, error, result, definition_key, parent_workflow_id,
       parent_task_index, root_workflow_id, completed_at)
SELECT 'f' || n, 'order', status, now() - interval '1 min', '{"message": "no"}', '{"ok": "yes"}', 'shop.order.v1',
       CASE WHEN n = 2 THEN 'f1' END, CASE WHEN n = 2 THEN 1 END, CASE WHEN n = 2 THEN 'f1' END,
       CASE WHEN n > 3 THEN now() END
  FROM unnest(ARRAY['RUNNING', 'RUNNING', 'PAUSED', 'FAILED', 'COMPLETED', 'RUNNING']) WITH ORDINALITY AS made (status, n);
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_kwargs, dependencies, args_from,
       status, task_id, result, error, is_subworkflow, sub_workflow_id, sub_workflow_name, sub_definition_key, started_at)
SELECT 'n' || f || n, 'f' || f, n, 'step_' || n, 'shop.mail_1', '{"to": "b"}', CASE WHEN n > 0 THEN ARRAY[n - 1] ELSE '{}' END,
       CASE WHEN n > 0 THEN jsonb_build_object('a', n - 1) END,
       (ARRAY['COMPLETED', 'RUNNING', 'FAILED', 'PENDING'])[1 + n], 't' || n + 3, '{"ok": "yes"}', '{"message": "no"}', n = 1,
       CASE WHEN n = 1 AND f = 1 THEN 'f2' END, 'import', 'shop.import.v1', now()
  FROM generate_series(1, 6) AS f, generate_series(0, 3) AS n;
INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch, max_claim_per_worker,
       queues, queue_priorities, queue_max_concurrency, recovery_config, worker_started_at, task_names, horsies_version,
       cpu_percent, memory_usage_mb)
SELECT 'w' || n % 5, now() - (CASE WHEN n % 5 = 4 THEN 300 ELSE n / 5 END) * interval '1 s', 'host' || n % 5, 7, 2, 8, 8,
       ARRAY['mail', 'pay'], '{"mail": 1}', '{"mail": 5}', '{"mode": "x"}', now() - interval '3 h', ARRAY['shop.mail_1'],
       '0.9', 40, 100
  FROM generate_series(0, 14) AS n;
INSERT INTO horsies_worker_losses (worker_id, failed, retried, returned) VALUES ('w4', '{t7}', '{t8}', '{t9}');
INSERT INTO horsies_sweeps (worker_id, expired, repairs, workflows) VALUES ('w0', 1, 2, 1);
INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)
SELECT date_trunc('minute', now()) - n * interval '10 s', queue, 9 - n FROM generate_series(0, 3) n, unnest('{"",mail}'::text[]) queue;
INSERT INTO horsies_outages (began_at, ended_at) VALUES (now() - interval '20 min', now() - interval '19 min');
INSERT INTO horsies_worker_orders (worker_id, draining_since, ordered_by, reason) VALUES ('w1', now(), 'ops', 'upgrade');
INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by, reason) VALUES ('mail', now(), 'ops', 'full');
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state, after_state,
       os_user, os_host, reason, filter)
SELECT gen_random_uuid(), 'requeue', kind, id, outcome, 'because', '{"status": "FAILED"}', '{"status": "PENDING"}', 'ops',
       'bastion', 'upgrade', 'status:failed'
  FROM unnest(ARRAY['task', 'workflow', 'worker', 'queue', 'schedule', 'task', 'node'], ARRAY['t7', 'f1', 'w1', 'mail',
              'nightly_1', 't8', 'n11'], ARRAY['applied', 'refused', 'applied', 'applied', 'applied', 'applied', 'applied'])
       AS made (kind, id, outcome);
INSERT INTO horsies_looks (look_id, task_id, worker_id, claimed_at, kind, answer)
SELECT gen_random_uuid(), 't4', 'w0', now(), 'stack', '{"frames": [{"file": "a.py"}]}';
INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms, report)
VALUES ('recovery', now(), 'w0', 3600000, '{"stale": 1}'), ('retention', now(), 'w0', 3600000, '{}');
INSERT INTO horsies_schedule_state (schedule_name, last_run_at, next_run_at, last_task_id, run_count, config_hash)
SELECT 'nightly_' || n, now() - interval '1 min', now() + (n - 2) * interval '1 min', 't' || n, 3, 'hash'
  FROM generate_series(1, 4) AS n;
INSERT INTO horsies_schedules (schedule_name, config_hash, definition, paused_at, paused_by, reason, skip_slot, skipped_by)
SELECT 'nightly_' || n, 'hash', jsonb_build_object('pattern', jsonb_build_object('type', 'interval', 'minutes', 5),
       'timezone', 'UTC', 'kind', 'task', 'target', 'shop.mail_1', 'queue', 'mail', 'priority', 100, 'args', '["a"]',
       'kwargs', '{"to": "b"}', 'task_options', null, 'max_retries', 0, 'catch_up_missed', false, 'max_catch_up_runs', 9),
       CASE WHEN n = 3 THEN now() END, CASE WHEN n = 3 THEN 'ops' END, 'full', CASE WHEN n = 4 THEN now() END, 'ops'
  FROM generate_series(1, 4) AS n;
INSERT INTO horsies_schedule_runs (schedule_name, slot, task_id, workflow_id, ordered_by)
SELECT 'nightly_' || n, now() - k * interval '5 min', CASE k WHEN 3 THEN NULL ELSE 't' || k + 5 END,
       CASE k WHEN 3 THEN 'f4' END, CASE k WHEN 1 THEN 'ops' END
  FROM generate_series(1, 4) AS n, generate_series(1, 4) AS k;
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version)
VALUES ('s1', 'host', 7, ARRAY['nightly_1', 'nightly_2', 'nightly_3'], '0.9');

INSERT INTO horsies_caps (queue_name) VALUES ('default');
