-- scene.py: a shop on a bad Wednesday. Every time is relative to now(), which stop_time.sql has stopped.
SET session_replication_role = replica; -- nobody listens yet

CREATE TEMP TABLE told (
    number int GENERATED ALWAYS AS IDENTITY, age float8, name text, queue text, priority int, status text, wait float8,
    started float8, run float8, tries int, allowed int, worker text, pid int, beat float8, error text, due float8
);
INSERT INTO told (age, name, queue, priority, status, wait, started, run, tries, allowed, worker, pid, beat, error, due)
VALUES
    (0.7, 'send_confirmation', 'mail', 10, 'PENDING', NULL, NULL, NULL, 1, 4, NULL, NULL, NULL, NULL, NULL),
    (1.2, 'charge_card', 'pay', 1, 'RUNNING', 0.1, 1.1, NULL, 1, 4, 'web-1', 4121, NULL, NULL, NULL),
    (1.9, 'render_invoice', 'default', 50, 'RUNNING', 0.2, 1.7, NULL, 1, 3, 'web-2', 977, NULL, NULL, NULL),
    (2.6, 'send_confirmation', 'mail', 10, 'COMPLETED', 0.2, 2.4, 0.3, 1, 4, 'web-1', 4119, NULL, NULL, NULL),
    (3.3, 'charge_card', 'pay', 1, 'COMPLETED', 0.0, 3.2, 0.4, 1, 4, 'web-1', 4120, NULL, NULL, NULL),
    (4.1, 'send_confirmation', 'mail', 10, 'CLAIMED', NULL, NULL, NULL, 1, 4, 'web-2', NULL, 1.0, NULL, NULL),
    (7.4, 'charge_card', 'pay', 1, 'FAILED', 0.1, 7.2, 0.4, 1, 4, 'web-2', 978, NULL, 'CARD_DECLINED', NULL),
    (9.0, 'sync_inventory', 'default', 50, 'RUNNING', 0.3, 8.6, NULL, 1, 5, 'web-1', 4122, 8.6, NULL, NULL),
    (12.5, 'render_invoice', 'default', 50, 'RUNNING', 0.1, 11.2, NULL, 2, 3, 'web-2', 979, 9.2, NULL, NULL),
    (16.8, 'charge_card', 'pay', 1, 'PENDING', NULL, NULL, NULL, 2, 4, NULL, NULL, NULL, 'GATEWAY_DOWN', 6.2),
    (21.1, 'ask_for_review', 'mail', 10, 'CANCELLED', NULL, NULL, 9.0, 1, 1, NULL, NULL, NULL, NULL, NULL),
    (27.5, 'send_newsletter', 'news', 100, 'EXPIRED', NULL, NULL, 10.0, 1, 1, NULL, NULL, NULL, 'TASK_EXPIRED', NULL),
    (34.2, 'sync_inventory', 'default', 50, 'PENDING', NULL, NULL, NULL, 3, 5, NULL, NULL, NULL, 'WAREHOUSE_BUSY', 41.6),
    (48.9, 'charge_card', 'pay', 1, 'FAILED', 0.0, 22.1, 2.1, 4, 4, 'web-1', 4119, NULL, 'RATE_LIMITED', NULL),
    (55.3, 'charge_card', 'pay', 1, 'FAILED', 0.1, 26.5, 2.0, 4, 4, 'web-1', 4120, NULL, 'RATE_LIMITED', NULL),
    (64.0, 'render_invoice', 'default', 50, 'FAILED', 0.4, 63.6, 0.5, 1, 3, 'web-2', 977, NULL, 'UNHANDLED_EXCEPTION', NULL),
    (71.7, 'charge_card', 'pay', 1, 'FAILED', 0.0, 41.7, 2.3, 4, 4, 'web-2', 980, NULL, 'RATE_LIMITED', NULL),
    (88.2, 'resize_photo', 'default', 50, 'FAILED', 0.2, 62.8, 0.9, 2, 2, 'web-1', 4123, NULL, 'WORKER_CRASHED', NULL),
    (96.4, 'import_catalog', 'bulk', 100, 'RUNNING', 3.1, 93.3, NULL, 1, 1, 'web-2', 981, 3.3, NULL, NULL),
    (128.0, 'ask_for_review', 'mail', 10, 'PENDING', NULL, NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, 1800),
    (135.0, 'resize_photo', 'default', 50, 'RUNNING', 0.4, 131.0, NULL, 1, 2, 'web-4', 310, 124.0, NULL, NULL),
    (872.0, 'nightly_import', 'bulk', 100, 'RUNNING', 3.0, 868.0, NULL, 1, 1, 'web-3', 88, 304.0, NULL, NULL),
    (2570.0, 'build_report', 'bulk', 100, 'FAILED', 1.4, 2562.0, 42.0, 1, 1, 'web-2', 640, NULL, 'TASK_INTERRUPTED', NULL),
    (4212.0, 'build_report', 'bulk', 100, 'FAILED', 0.9, 4190.0, 37.0, 1, 1, 'web-2', 641, NULL, 'TASK_INTERRUPTED', NULL);
-- What went well in between, and what waits for something.
INSERT INTO told (age, name, queue, priority, status, wait, started, run, tries, allowed, worker, pid)
SELECT age, (ARRAY['send_confirmation', 'charge_card', 'sync_inventory', 'render_invoice', 'send_confirmation',
                   'ask_for_review', 'charge_card'])[1 + n % 7],
       (ARRAY['mail', 'pay', 'default', 'default', 'mail', 'mail', 'pay'])[1 + n % 7],
       (ARRAY[10, 1, 50, 50, 10, 10, 1])[1 + n % 7], 'COMPLETED', 0.1 * (n % 5), age - 0.1 * (n % 5),
       0.3 + 0.1 * (n % 9), 1, (ARRAY[4, 4, 5, 3, 4, 1, 4])[1 + n % 7], 'web-' || 1 + n % 2, 4119 + n % 5
  FROM generate_series(1, 2400) n
 CROSS JOIN LATERAL (
       SELECT 5.7 + n * 4.1 + n * n * 0.002 + 150 * sin(n / 75.0) * LEAST(n / 40.0, 1) AS age) made;
INSERT INTO told (age, name, queue, priority, status, wait, started, run, tries, allowed, worker, pid, error)
SELECT age, 'charge_card', 'pay', 1, 'FAILED', 0.1, age - 30, 2.1, 4, 4, 'web-1', 4119 + n % 3,
       (ARRAY['RATE_LIMITED', 'RATE_LIMITED', 'GATEWAY_DOWN', 'CARD_DECLINED'])[1 + n % 4]
  FROM generate_series(1, 42) n CROSS JOIN LATERAL (SELECT 110 + n * 17.3 AS age) made;
INSERT INTO told (age, name, queue, priority, status, tries, allowed, worker)
SELECT 123 + n * 0.2, 'send_confirmation', 'mail', 10, 'CLAIMED', 1, 4, 'web-4' FROM generate_series(1, 12) n
 UNION ALL
SELECT 560 - n * 11, 'resize_photo_v2', 'default', 50, 'PENDING', 1, 2, NULL FROM generate_series(1, 37) n
 UNION ALL
SELECT 715 - n * 0.5, 'send_newsletter', 'news', 100, 'PENDING', 1, 1, NULL FROM generate_series(1, 214) n
 UNION ALL
SELECT 5100 + n * 60, 'print_label', 'legacy', 100, 'PENDING', 1, 1, NULL FROM generate_series(1, 3) n;

INSERT INTO horsies_tasks (
    id, task_name, queue_name, priority, status, args, kwargs, created_at, sent_at, updated_at, enqueued_at,
    next_retry_at, claimed_at, claim_expires_at, claimed, claimed_by_worker_id, started_at, completed_at, failed_at,
    error_code, retry_count, max_retries, worker_hostname, worker_pid, worker_process_name, result)
SELECT pictures.id_of(at.made, number::text), name, queue, priority, status, '[]',
       json_build_object('order', 48000 - number, 'customer', 'anna@shop.example')::text, at.made, at.made, at.made,
       COALESCE(at.started - wait * interval '1 s', now() + due * interval '1 s', at.made),
       CASE WHEN tries > 1 THEN now() + due * interval '1 s' END,
       CASE WHEN worker IS NOT NULL THEN COALESCE(at.started, at.made + interval '100 ms') END,
       CASE status WHEN 'CLAIMED' THEN now() + interval '30 s' END, status = 'CLAIMED',
       worker || CASE worker WHEN 'web-1' THEN '-4118-9c1e' WHEN 'web-2' THEN '-976-07d2' WHEN 'web-3' THEN '-87-e41b'
                 ELSE '-309-5a60' END, at.started,
       CASE status WHEN 'COMPLETED' THEN at.ended END,
       CASE WHEN status IN ('FAILED', 'CANCELLED', 'EXPIRED') THEN at.ended END,
       CASE WHEN status <> 'PENDING' THEN error END, tries - 1, allowed - 1,
       CASE WHEN told.started IS NOT NULL THEN worker END, pid,
       CASE WHEN told.started IS NOT NULL THEN 'horsies-child' END,
       CASE status WHEN 'COMPLETED' THEN '{"__task_result__": true, "ok": "receipt-' || 48000 - number || '", "err": null}'
                   WHEN 'FAILED' THEN '{"__task_result__": true, "ok": null, "err": {"__task_error__": true, "error_code": "'
                                      || error || '", "message": "come back later", "data": null, "exception": null}}' END
  FROM told
 CROSS JOIN LATERAL (
        SELECT now() - age * interval '1 s' AS made, now() - told.started * interval '1 s' AS started,
               now() - (COALESCE(told.started, age) - run) * interval '1 s' AS ended
       ) at;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
SELECT pictures.id_of(now() - age * interval '1 s', number::text), concat(worker, ':', pid),
       CASE status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END, now() - (beat + back) * interval '1 s', worker, pid
  FROM told CROSS JOIN generate_series(0, 3600, 30) back
 WHERE beat IS NOT NULL AND beat + back <= COALESCE(started, age)
 ORDER BY number, back DESC;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                   error_message, worker_id, worker_hostname, worker_pid, created_at, waited_ms)
SELECT id, n, 'FAILED', n < retry_count + (status = 'PENDING')::int OR status = 'RUNNING', made, made + interval '2 s',
       code,
       CASE code WHEN 'RATE_LIMITED' THEN '429 Too Many Requests, come back later'
                 WHEN 'CARD_DECLINED' THEN 'the bank says no: do_not_honor'
                 WHEN 'GATEWAY_DOWN' THEN 'connect to gateway.bank.example:443 timed out after 2 s'
                 WHEN 'WAREHOUSE_BUSY' THEN 'deadlock detected while counting shelf 14'
                 WHEN 'UNHANDLED_EXCEPTION' THEN 'KeyError: vat_number'
                 WHEN 'WORKER_CRASHED' THEN 'its child process was killed by signal 9'
                 WHEN 'TASK_INTERRUPTED' THEN 'stopped at a shutdown, past the grace of 25 s'
                 ELSE 'no answer in time' END,
       claimed_by_worker_id, 'web-1', 4119 + n, made, 100 * (n % 5)
  FROM horsies_tasks task
 CROSS JOIN generate_series(1, retry_count + (status = 'FAILED')::int) n
 CROSS JOIN LATERAL (SELECT CASE WHEN n = retry_count + 1 THEN started_at
                                 ELSE created_at + n * n * interval '2 s' END AS made) at
 CROSS JOIN LATERAL (
        SELECT COALESCE(error_code,
                        (SELECT error FROM told WHERE pictures.id_of(now() - age * interval '1 s', number::text) = id),
                        'TASK_TIMEOUT') AS code) cause
 WHERE made IS NOT NULL
 ORDER BY created_at, id, n;

-- How far some of the tasks that run have come, and one whose worker was lost.
INSERT INTO horsies_progress (task_id, started_at, done, total, unit, rate, gap_s, reported_at)
SELECT id, started_at, done, total, unit, rate, 1, now() - silent * interval '1 s'
  FROM horsies_tasks
  JOIN (VALUES ('import_catalog', 3400, 10000, 'products', 36.4, 1), ('sync_inventory', 412, NULL, 'shelves', 48, 0.5),
               ('nightly_import', 61200, 90000, 'rows', 80, 304)) AS report (name, done, total, unit, rate, silent)
    ON task_name = name AND status = 'RUNNING';

-- Good for ten seconds only, in a queue that stands still.
INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, sent_at, updated_at, enqueued_at, good_until)
SELECT pictures.id_of(at, 'flash' || n), 'send_newsletter', 'news', at, at, at, at, at + interval '10 s'
  FROM generate_series(1, 9) n CROSS JOIN LATERAL (SELECT now() - (16 + n * 0.1) * interval '1 s' AS at) made;
INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by, reason, updated_at)
VALUES ('news', now() - interval '12 min', 'ops@bastion', 'the mail provider moves house, until 12:30', now());
INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms)
SELECT sweep, now() - interval '12 s', 'web-2-976-07d2', 30000
  FROM unnest('{claims 120000,runs 300000,recovery}'::text[]) AS sweep;
INSERT INTO horsies_pulse (beaten_at) VALUES (now() - interval '12 s');
INSERT INTO horsies_worker_states (
    worker_id, snapshot_at, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues, tasks_running,
    tasks_claimed, memory_usage_mb, children_memory_mb, cpu_percent, worker_started_at, task_names, horsies_version,
    recovery_config)
SELECT worker, now() - silent * interval '1 s', host, pid, 8, 8, 8, queues::varchar[], running, 0, 84, 328, cpu,
       now() - interval '5 h',
       '{charge_card,send_confirmation,send_newsletter,ask_for_review,render_invoice,sync_inventory,resize_photo,'
       'build_report,import_catalog,nightly_import,close_books,import_ledger,import_supplier,reserve_stock}',
       '1.0.0', '{"check_interval_ms": 30000}'
  FROM (VALUES ('web-1-4118-9c1e', 1.2, 'web-1', 4118, '{pay,mail,default,bulk,news}', 4, 31),
               ('web-2-976-07d2', 3.4, 'web-2', 976, '{pay,mail,default,bulk,news}', 4, 28),
               ('web-3-87-e41b', 304, 'web-3', 87, '{pay,mail,default,bulk,news}', 1, 44),
               ('web-4-309-5a60', 124, 'web-4', 309, '{pay,mail,default,bulk,news}', 5, 39),
               ('mail-1-2207-c3f8', 2.1, 'mail-1', 2207, '{mail,news}', 0, 4),
               ('mail-2-1893-11ab', 0.4, 'mail-2', 1893, '{mail,news}', 0, 3))
       AS known (worker, silent, host, pid, queues, running, cpu);

-- One task with a long story: a lost worker, a retry, and an operator who gave it up. It is a part of a workflow.
INSERT INTO horsies_tasks (
    id, task_name, queue_name, priority, status, args, kwargs, created_at, sent_at, updated_at, enqueued_at,
    next_retry_at, claimed_at, claimed_by_worker_id, started_at, failed_at, error_code, retry_count, max_retries,
    good_until, worker_hostname, worker_pid, worker_process_name, is_workflow_task, task_options, result)
SELECT 'c0ffee00-11d0-7a31-8b5c-2f6e90c0ffee', 'import_ledger', 'bulk', 100, 'FAILED', '[]',
       '{"path": "s3://shop-eu/ledger/2026-11-17.csv", "dry_run": false, "account": {"iban": "NL02ABNA0123456789", '
       '"owner": "Shop EU B.V."}, "columns": ["day", "account", "debit", "credit"]}',
       sent, sent, sent, sent + interval '963 s', sent + interval '963 s', sent + interval '970 s', 'web-1-4118-9c1e',
       sent + interval '971 s', sent + interval '1552 s', 'OPERATOR_FAILED', 1, 1, sent + interval '9597 s', 'web-1', 4120,
       'horsies-child', true,
       '{"retry_policy": {"max_retries": 1, "intervals": [60], "backoff_strategy": "fixed", "jitter": false, '
       '"auto_retry_for": ["WORKER_CRASHED"]}, "good_until": null}',
       '{"__task_result__": true, "ok": null, "err": {"__task_error__": true, "error_code": "OPERATOR_FAILED", '
       '"message": "failed by ops@bastion: stuck on a lock", "data": {"by": "ops@bastion", "reason": "stuck on a lock"}, '
       '"exception": null}}'
  FROM (SELECT now() - interval '44 min 28.4 s' AS sent) at;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                   error_message, worker_id, worker_hostname, worker_pid, worker_process_name, created_at)
SELECT id, n, outcome, n = 1, sent_at + began * interval '1 s', sent_at + ended * interval '1 s', code, message, worker,
       host, pid, 'horsies-child', sent_at
  FROM horsies_tasks
 CROSS JOIN (VALUES (1, 'WORKER_FAILURE', 61, 903, 'WORKER_CRASHED', 'no runner heartbeat for 5m00s', 'web-3-87-e41b',
                     'web-3', 88),
                    (2, 'FAILED', 971, 1552, 'OPERATOR_FAILED', 'failed by ops@bastion: stuck on a lock',
                     'web-1-4118-9c1e', 'web-1', 4120)) AS run (n, outcome, began, ended, code, message, worker, host, pid)
 WHERE task_name = 'import_ledger';
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
SELECT id, sender, role, sent_at + at * interval '1 s', split_part(sender, ':', 1), 88
  FROM horsies_tasks
 CROSS JOIN (SELECT 'web-3:87', 'claimer', 5 + 30 * n FROM generate_series(0, 1) n
              UNION ALL SELECT 'web-3:88', 'runner', 61 + 30 * n FROM generate_series(0, 18) n
              UNION ALL SELECT 'web-1:4120', 'runner', 971 + 30 * n FROM generate_series(0, 19) n) AS beat (sender, role, at)
 WHERE task_name = 'import_ledger'
 ORDER BY at;
-- As a replica, which takes the time and the role of a row as they are.
SET session_replication_role = replica;
INSERT INTO horsies_operator_actions (acted_at, operation_id, verb, target_kind, target_id, outcome, os_user, os_host,
                                      db_role, reason)
SELECT failed_at, '00000000-0000-4000-8000-000000000001', 'fail', 'task', id, 'applied', 'ops', 'bastion', 'horsies',
       'stuck on a lock'
  FROM horsies_tasks WHERE task_name = 'import_ledger';
RESET session_replication_role;

-- What was raised by those that failed without a code of their own.
UPDATE horsies_tasks
   SET result = json_build_object('__task_result__', true, 'ok', NULL, 'err', json_build_object(
       '__task_error__', true, 'error_code', 'UNHANDLED_EXCEPTION', 'message', 'KeyError: vat_number', 'exception',
       json_build_object('type', 'KeyError', 'message', 'vat_number', 'traceback', $$Traceback (most recent call last):
  File "/srv/shop/shop/invoices.py", line 48, in render_invoice
    html = page.render(lines=lines, seller=SELLER, buyer=buyer_of(order))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/.venv/lib/python3.12/site-packages/jinja2/environment.py", line 1295, in render
    self.environment.handle_exception()
  File "/srv/shop/.venv/lib/python3.12/site-packages/jinja2/environment.py", line 942, in handle_exception
    raise rewrite_traceback_stack(source=source)
  File "/srv/shop/shop/templates/invoice.html", line 31, in top-level template code
    {{ vat_line(buyer, rate=0.19) }}
  File "/srv/shop/shop/invoices.py", line 17, in vat_line
    return f"VAT {rate:.0%}  {buyer['vat_number']}"  # required since 2025
                              ~~~~~^^^^^^^^^^^^^^
KeyError: 'vat_number'
$$)))
 WHERE status = 'FAILED' AND error_code = 'UNHANDLED_EXCEPTION';
