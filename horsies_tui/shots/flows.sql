-- scene.py, after shop.sql: a month's end that waits for a person, orders, and one that has not heard of its task.
CREATE TEMP TABLE flow (
    key text PRIMARY KEY, name text, status text, on_error text, age float8, took float8, parent text, parent_index int,
    definition text, error text
);
INSERT INTO flow VALUES
    ('month_end', 'month_end', 'PAUSED', 'pause', 2668.4, NULL, NULL, NULL, 'shop.month_end', 'OPERATOR_FAILED'),
    ('tills', 'close_till', 'COMPLETED', 'fail', 2667.0, 41.2, 'month_end', 4, '__horsies_map__', NULL),
    ('stock', 'stock_count', 'COMPLETED', 'fail', 2667.0, 611.0, 'month_end', 5, 'shop.stock_count', NULL),
    ('prices', 'price_update', 'RUNNING', 'fail', 381.0, NULL, NULL, NULL, 'shop.price_update', NULL),
    ('suppliers', 'import_supplier', 'RUNNING', 'fail', 377.5, NULL, 'prices', 1, '__horsies_map__', NULL),
    ('unheard', 'order', 'RUNNING', 'fail', 10.6, NULL, NULL, NULL, 'shop.order', NULL);
INSERT INTO flow
SELECT 'order' || n,  'order',
       CASE WHEN n <= 3 THEN 'RUNNING' WHEN n IN (7, 11, 18, 23) THEN 'FAILED' WHEN n = 14 THEN 'CANCELLED'
            ELSE 'COMPLETED' END,
       'fail', 21.3 + n * 74.6 + n * n * 1.3, CASE WHEN n > 3 THEN 4.1 + (n * 7 % 11) * 0.6 END, NULL, NULL, 'shop.order',
       CASE WHEN n IN (7, 18) THEN 'CARD_DECLINED' WHEN n = 11 THEN 'OUT_OF_STOCK' WHEN n = 23 THEN 'UNHANDLED_EXCEPTION' END
  FROM generate_series(1, 28) n;
INSERT INTO flow VALUES
    ('returns', 'customer_return', 'COMPLETED', 'fail', 1911.0, 604.0, NULL, NULL, 'shop.customer_return', NULL);
INSERT INTO flow
SELECT 'shipping' || n, 'shipping', 'COMPLETED', 'fail', age - 2.2, 1.3, key, 3, 'shop.shipping', NULL
  FROM flow CROSS JOIN LATERAL (SELECT substr(key, 6)::int AS n) number
 WHERE key LIKE 'order%' AND status IN ('RUNNING', 'COMPLETED');

INSERT INTO horsies_workflows (id, name, status, on_error, definition_key, parent_workflow_id, parent_task_index, depth,
                               root_workflow_id, sent_at, created_at, started_at, completed_at, updated_at, error)
SELECT pictures.id_of(made, key), name, status, on_error, definition, parent_id, parent_index, (parent IS NOT NULL)::int,
       COALESCE(parent_id, pictures.id_of(made, key)), made, made, made, made + took * interval '1 s',
       made + COALESCE(took, CASE WHEN key = 'month_end' THEN 1552 END, 2) * interval '1 s',
       '{"__task_error__": true, "error_code": "' || error || '", "message": "' ||
       CASE error WHEN 'OPERATOR_FAILED' THEN 'failed by ops@bastion: stuck on a lock' WHEN 'CARD_DECLINED'
                  THEN 'the bank says no' WHEN 'OUT_OF_STOCK' THEN 'nothing left of kettle-13' ELSE 'KeyError: country' END
       || '", "data": null, "exception": null}'
  FROM (SELECT flow.*, now() - age * interval '1 s' AS made,
               (SELECT pictures.id_of(now() - above.age * interval '1 s', above.key) FROM flow above
                 WHERE above.key = flow.parent) AS parent_id
          FROM flow) told
 ORDER BY parent IS NOT NULL, key;

-- `began` and `ran` in seconds, the first before now. `task`: its state where there is a row of it.
CREATE TEMP TABLE node (
    flow text, index int, node_id text, name text, queue text, needs int[], status text, began float8, ran float8,
    task text, child text, tries int DEFAULT 1, allowed int DEFAULT 1, worker text, pid int, beat float8
);
INSERT INTO node (flow, index, node_id, name, queue, needs, status, began, ran, task, child) VALUES
    ('month_end', 0, 'open_books', 'open_books', 'default', '{}', 'COMPLETED', 2668.2, 0.2, 'COMPLETED', NULL),
    ('month_end', 1, 'import_eu', 'import_ledger', 'bulk', '{0}', 'FAILED', 1697.4, 581.0, NULL, NULL),
    ('month_end', 2, 'import_us', 'import_ledger', 'bulk', '{0}', 'COMPLETED', 2660.1, 190.4, 'COMPLETED', NULL),
    ('month_end', 3, 'import_uk', 'import_ledger', 'bulk', '{0}', 'RUNNING', 252.0, NULL, 'RUNNING', NULL),
    ('month_end', 4, 'tills', 'close_till', 'default', '{0}', 'COMPLETED', 2667.0, 41.2, NULL, 'tills'),
    ('month_end', 5, 'stock', 'stock_count', 'default', '{}', 'COMPLETED', 2667.0, 611.0, NULL, 'stock'),
    ('month_end', 6, 'balance', 'balance_books', 'default', '{1,2,3}', 'PENDING', NULL, NULL, NULL, NULL),
    ('month_end', 7, 'report', 'write_report', 'bulk', '{4,5,6}', 'PENDING', NULL, NULL, NULL, NULL),
    ('month_end', 8, 'archive', 'archive_books', 'bulk', '{7}', 'PENDING', NULL, NULL, NULL, NULL),
    ('month_end', 9, 'mail', 'mail_accountant', 'mail', '{7}', 'PENDING', NULL, NULL, NULL, NULL),
    ('stock', 0, 'shelves', 'list_shelves', 'default', '{}', 'COMPLETED', 2666.8, 3.1, NULL, NULL),
    ('stock', 1, 'count', 'count_shelves', 'default', '{0}', 'COMPLETED', 2663.5, 540.0, NULL, NULL),
    ('stock', 2, 'photograph', 'photograph_shelves', 'default', '{0}', 'COMPLETED', 2663.5, 212.0, NULL, NULL),
    ('stock', 3, 'compare', 'compare_stock', 'default', '{1}', 'COMPLETED', 2123.0, 9.6, NULL, NULL),
    ('stock', 4, 'file', 'file_count', 'bulk', '{2,3}', 'COMPLETED', 2113.2, 57.0, NULL, NULL),
    ('prices', 0, 'suppliers', 'list_suppliers', 'default', '{}', 'COMPLETED', 380.9, 3.1, NULL, NULL),
    ('prices', 1, 'import', 'import_supplier', 'bulk', '{0}', 'RUNNING', 377.5, NULL, NULL, 'suppliers'),
    ('prices', 2, 'publish', 'publish_prices', 'default', '{1}', 'PENDING', NULL, NULL, NULL, NULL),
    ('prices', 3, 'mail', 'mail_buyers', 'mail', '{2}', 'PENDING', NULL, NULL, NULL, NULL),
    ('unheard', 0, 'charge', 'charge_card', 'pay', '{}', 'RUNNING', 10.3, 2.2, 'FAILED', NULL),
    ('unheard', 1, 'invoice', 'render_invoice', 'default', '{0}', 'PENDING', NULL, NULL, NULL, NULL),
    ('unheard', 2, 'reserve', 'reserve_stock', 'default', '{0}', 'PENDING', NULL, NULL, NULL, NULL),
    ('unheard', 3, 'ship', 'shipping', 'default', '{1,2}', 'PENDING', NULL, NULL, NULL, NULL),
    ('unheard', 4, 'confirm', 'send_confirmation', 'mail', '{3}', 'PENDING', NULL, NULL, NULL, NULL);
UPDATE node SET tries = 2, allowed = 2, worker = 'web-2', pid = 982, beat = 2.0 WHERE node_id = 'import_uk';
UPDATE node SET allowed = 4, worker = 'web-2', pid = 978 WHERE flow = 'unheard' AND index = 0;
UPDATE node SET task = 'COMPLETED', worker = 'web-1', pid = 4119
 WHERE flow = 'stock' OR node_id IN ('open_books', 'import_us', 'suppliers');
INSERT INTO node (flow, index, node_id, name, queue, needs, status, began, ran)
SELECT 'tills', n, 'item:' || n, 'close_till', 'default', '{}', 'COMPLETED', 2666.5, 12 + n * 7 % 29
  FROM generate_series(0, 11) n;
INSERT INTO node
SELECT 'suppliers', n, 'item:' || n, 'import_supplier', 'bulk', '{}',
       CASE WHEN n < 23 THEN 'COMPLETED' WHEN n < 25 THEN 'RUNNING' ELSE 'ENQUEUED' END,
       CASE WHEN n < 23 THEN 377 - n * 15 WHEN n < 25 THEN 40 - n END, CASE WHEN n < 23 THEN 11 + n * 5 % 8 END,
       CASE WHEN n >= 25 THEN 'PENDING' WHEN n >= 23 THEN 'RUNNING' END, NULL, 1, 1,
       CASE WHEN n IN (23, 24) THEN 'web-1' END, CASE WHEN n IN (23, 24) THEN 4101 + n END, CASE WHEN n IN (23, 24) THEN 3.3 END
  FROM generate_series(0, 39) n;
INSERT INTO node (flow, index, node_id, name, queue, needs, status, began, ran, task, child, allowed)
SELECT key, index, node_id, kind.name, queue, needs,
       CASE WHEN index = bad THEN CASE flow.status WHEN 'CANCELLED' THEN 'SKIPPED' ELSE 'FAILED' END
            WHEN index > bad AND (bad = 0 OR index > 2) THEN 'SKIPPED'
            WHEN flow.status = 'RUNNING' AND index = 4 THEN 'ENQUEUED' ELSE 'COMPLETED' END,
       age - at, CASE WHEN index = 4 AND flow.status = 'RUNNING' THEN NULL ELSE ran END,
       CASE WHEN flow.status = 'RUNNING' AND index = 4 THEN 'PENDING' END,
       CASE WHEN index = 3 AND flow.status IN ('RUNNING', 'COMPLETED') THEN 'shipping' || substr(key, 6) END, allowed
  FROM flow
 CROSS JOIN (VALUES (0, 'charge', 'charge_card', 'pay', '{}'::int[], 0.1, 0.4, 4),
                    (1, 'invoice', 'render_invoice', 'default', '{0}', 0.6, 0.5, 3),
                    (2, 'reserve', 'reserve_stock', 'default', '{0}', 0.6, 0.3, 1),
                    (3, 'ship', 'shipping', 'default', '{1,2}', 2.2, 1.3, 1),
                    (4, 'confirm', 'send_confirmation', 'mail', '{3}', 3.6, 0.4, 4))
       AS kind (index, node_id, name, queue, needs, at, ran, allowed)
 CROSS JOIN LATERAL (SELECT CASE error WHEN 'CARD_DECLINED' THEN 0 WHEN 'OUT_OF_STOCK' THEN 2 WHEN 'UNHANDLED_EXCEPTION' THEN 1
                                       ELSE CASE WHEN flow.status = 'CANCELLED' THEN 3 END END AS bad) trouble
 WHERE key LIKE 'order%';
INSERT INTO node (flow, index, node_id, name, queue, needs, status, began, ran)
SELECT key, index, kind.name, kind.name || CASE index WHEN 0 THEN '_parcel' ELSE '_label' END, 'default', needs, 'COMPLETED',
       age - 0.1 - index * 0.8, 0.4
  FROM flow CROSS JOIN (VALUES (0, 'pack', '{}'::int[]), (1, 'print', '{0}')) AS kind (index, name, needs)
 WHERE key LIKE 'shipping%';
INSERT INTO node (flow, index, node_id, name, queue, needs, status, began, ran)
SELECT 'returns', n, word, word || '_return', 'default', CASE n WHEN 0 THEN '{}'::int[] ELSE ARRAY[n - 1] END, 'COMPLETED',
       1910 - n * 150, 149
  FROM unnest('{receive,inspect,refund,restock}'::text[]) WITH ORDINALITY AS step (word, at)
 CROSS JOIN LATERAL (SELECT at::int - 1 AS n) number;

INSERT INTO horsies_workflow_tasks (
    id, workflow_id, task_index, node_id, task_name, queue_name, priority, dependencies, status, task_id, is_subworkflow,
    sub_workflow_id, sub_workflow_name, sub_definition_key, task_kwargs, args_from, created_at, started_at, completed_at,
    result)
SELECT md5(flow.key || index), flow.id, index, node_id, node.name, queue,
       CASE queue WHEN 'pay' THEN 1 WHEN 'mail' THEN 10 WHEN 'default' THEN 50 ELSE 100 END, needs, status,
       CASE WHEN task IS NOT NULL THEN pictures.id_of(now() - COALESCE(began, flow.age) * interval '1 s', flow.key || index)
            WHEN node_id = 'import_eu' THEN 'c0ffee00-11d0-7a31-8b5c-2f6e90c0ffee' END,
       child IS NOT NULL OR node.name = 'shipping', child.id, CASE WHEN child IS NOT NULL THEN node.name END, child.definition,
       CASE node_id WHEN 'import_eu' THEN (SELECT kwargs FROM horsies_tasks WHERE task_name = 'import_ledger')
                    WHEN 'import_uk' THEN '{"path": "s3://shop-uk/ledger/2026-11-17.csv", "dry_run": false}' ELSE '{}' END,
       CASE node_id WHEN 'balance' THEN '{"eu": 1, "us": 2, "uk": 3}'::jsonb WHEN 'report' THEN '{"tills": 4, "books": 6}' END,
       now() - flow.age * interval '1 s',
       CASE WHEN status NOT IN ('SKIPPED', 'ENQUEUED') THEN now() - began * interval '1 s' END,
       CASE WHEN status IN ('COMPLETED', 'FAILED', 'SKIPPED') THEN now() - (began - ran) * interval '1 s' END,
       CASE WHEN node_id = 'import_eu' THEN (SELECT result FROM horsies_tasks WHERE task_name = 'import_ledger')
            WHEN status = 'COMPLETED' THEN '{"__task_result__": true, "ok": "done", "err": null}'
            WHEN status = 'FAILED' THEN '{"__task_result__": true, "ok": null, "err": ' || flow.error || '}' END
  FROM node
  JOIN (SELECT key, age, definition, pictures.id_of(now() - age * interval '1 s', key) AS id,
               (SELECT told.error FROM horsies_workflows told
                 WHERE told.id = pictures.id_of(now() - age * interval '1 s', key)) AS error
          FROM flow) flow ON flow.key = node.flow
  LEFT JOIN (SELECT key, definition, pictures.id_of(now() - age * interval '1 s', key) AS id FROM flow) child
    ON child.key = node.child
 ORDER BY flow.key, index;
INSERT INTO horsies_tasks (
    id, task_name, queue_name, priority, status, args, kwargs, created_at, sent_at, updated_at, enqueued_at, claimed_at,
    claimed_by_worker_id, started_at, completed_at, failed_at, error_code, retry_count, max_retries, worker_hostname,
    worker_pid, worker_process_name, is_workflow_task, result)
SELECT link.task_id, node.name, queue, link.priority, task, '[]', link.task_kwargs, made, made, made, made,
       CASE WHEN worker IS NOT NULL THEN started END,
       worker || CASE worker WHEN 'web-1' THEN '-4118-9c1e' ELSE '-976-07d2' END, started,
       CASE task WHEN 'COMPLETED' THEN ended END, CASE task WHEN 'FAILED' THEN ended END,
       CASE task WHEN 'FAILED' THEN 'CARD_DECLINED' END, tries - 1, allowed - 1, worker, pid,
       CASE WHEN worker IS NOT NULL THEN 'horsies-child' END, true,
       CASE task WHEN 'COMPLETED' THEN link.result
                 WHEN 'FAILED' THEN '{"__task_result__": true, "ok": null, "err": {"__task_error__": true, "error_code": '
                                    '"CARD_DECLINED", "message": "the bank says no", "data": null, "exception": null}}' END
  FROM node
  JOIN horsies_workflow_tasks link ON link.id = md5(node.flow || node.index)
  JOIN flow ON flow.key = node.flow
 CROSS JOIN LATERAL (
        SELECT now() - COALESCE(began + 0.1, LEAST(flow.age - 3.6, 150.2 - node.index * 0.7)) * interval '1 s' AS made,
               CASE WHEN task <> 'PENDING' THEN now() - began * interval '1 s' END AS started,
               now() - (began - ran) * interval '1 s' AS ended
       ) at
 WHERE task IS NOT NULL
 ORDER BY node.flow, node.index;
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
SELECT link.task_id, concat(worker, ':', pid), 'runner', now() - (beat + back) * interval '1 s', worker, pid
  FROM node JOIN horsies_workflow_tasks link ON link.id = md5(node.flow || node.index)
 CROSS JOIN generate_series(0, 240, 30) back
 WHERE beat IS NOT NULL AND beat + back <= began
 ORDER BY node.flow, node.index, back DESC;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                   error_message, worker_id, worker_hostname, worker_pid, created_at)
SELECT task_id, 1, 'WORKER_FAILURE', true, now() - interval '2660 s', now() - interval '312 s', 'WORKER_CRASHED',
       'no runner heartbeat for 5m00s', 'web-3-87-e41b', 'web-3', 91, now() - interval '2660 s'
  FROM horsies_workflow_tasks WHERE node_id = 'import_uk';
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, worker_id, worker_hostname,
                                   worker_pid, worker_process_name, created_at, waited_ms)
SELECT task.id, 1, 'COMPLETED', false, task.started_at, task.completed_at, claimed_by_worker_id, task.worker_hostname,
       task.worker_pid, task.worker_process_name, task.started_at,
       GREATEST(extract(epoch FROM task.started_at - task.enqueued_at) * 1000, 0)
  FROM horsies_tasks task JOIN horsies_workflow_tasks link ON link.task_id = task.id
 WHERE task.status = 'COMPLETED'
 ORDER BY task.started_at, task.id;
