-- scene.py: what the shop sends by itself. The scheduler of the labels ran beside the worker that was lost.
CREATE FUNCTION pictures.slot_of(next timestamptz, n int, step interval, zone text) RETURNS timestamptz LANGUAGE sql
    IMMUTABLE RETURN (next AT TIME ZONE zone - n * step) AT TIME ZONE zone;
CREATE TEMP TABLE plan (
    name text, pattern text, zone text, kind text, target text, queue text, next timestamptz, step interval, runs int,
    took float8, fails int, host text, pid int
);
INSERT INTO plan VALUES
    ('sync_inventory', '{"type": "interval", "minutes": 5}', 'UTC', 'task', 'sync_inventory', 'default',
     now() + interval '3 min 12 s', '5 min', 0, 0, 0, 'web-1', 4118),
    ('nightly_import', '{"type": "daily", "time": "03:50:00"}', 'America/Los_Angeles', 'task', 'nightly_import', 'bulk',
     '2026-11-19 11:50Z', '1 day', 0, 0, 0, 'web-1', 4118),
    ('daily_sales', '{"type": "daily", "time": "06:30:00"}', 'Europe/Berlin', 'task', 'build_report', 'bulk',
     '2026-11-19 05:30Z', '1 day', 30, 74, 11, 'web-1', 4118),
    ('purge_carts', '{"type": "cron", "expression": "40 */6 * * *"}', 'UTC', 'task', 'purge_carts', 'default',
     '2026-11-18 12:40Z', '6 h', 40, 8, 0, 'web-1', 4118),
    ('month_end', '{"type": "monthly", "day": 1, "time": "06:00:00"}', 'Europe/Berlin', 'workflow', 'month_end', NULL,
     '2026-12-01 05:00Z', '30 days', 5, NULL, 0, 'web-1', 4118),
    ('newsletter', '{"type": "weekly", "days": ["tuesday", "thursday"], "time": "09:00:00"}', 'Europe/Berlin', 'task',
     'send_newsletter', 'news', '2026-11-19 08:00Z', '7 days', 9, 310, 4, 'web-1', 4118),
    ('print_labels', '{"type": "interval", "minutes": 10}', 'UTC', 'task', 'print_label', 'legacy',
     now() - interval '3 min 40 s', '10 min', 12, NULL, 0, 'web-3', 87);

INSERT INTO horsies_schedules (schedule_name, config_hash, definition, registered_at, paused_at, paused_by, reason)
SELECT name, md5(pattern), jsonb_build_object('pattern', pattern::jsonb, 'timezone', zone, 'kind', kind, 'target', target,
           'queue', queue, 'priority', 100, 'args', '[]', 'kwargs', '{}', 'max_retries', 0, 'catch_up_missed', false),
       now() - interval '5 h',
       CASE name WHEN 'newsletter' THEN now() - interval '26 h' END,
       CASE name WHEN 'newsletter' THEN 'ops@bastion' END,
       CASE name WHEN 'newsletter' THEN 'its link to unsubscribe is broken' END
  FROM plan;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, args, kwargs, created_at, sent_at, updated_at, enqueued_at,
                           started_at, completed_at, failed_at, error_code, max_retries, claimed_by_worker_id,
                           worker_hostname, worker_pid)
SELECT pictures.id_of(slot, name), target, queue, CASE WHEN broke THEN 'FAILED' ELSE 'COMPLETED' END, '[]', '{}', slot, slot,
       slot, slot, slot + interval '200 ms', CASE WHEN NOT broke THEN ended END, CASE WHEN broke THEN ended END,
       CASE WHEN broke THEN 'GATEWAY_DOWN' END, 0, 'web-1-4118-9c1e', 'web-1', 4119
  FROM plan
 CROSS JOIN generate_series(1, runs) n
 CROSS JOIN LATERAL (
       SELECT slot_of(next, n, step, zone) AS slot, plan.fails > 0 AND n % GREATEST(plan.fails, 1) = 3 AS broke) at
 CROSS JOIN LATERAL (SELECT slot + (0.2 + took * (0.7 + 0.3 * sin(n * 1.3))) * interval '1 s' AS ended) made
 WHERE took IS NOT NULL;
INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id, workflow_id, ordered_by)
SELECT name, slot, slot, CASE kind WHEN 'task' THEN id END, CASE kind WHEN 'workflow' THEN id END, NULL
  FROM plan
 CROSS JOIN generate_series(1, runs) n
 CROSS JOIN LATERAL (SELECT slot_of(next, n, step, zone) AS slot) at
 CROSS JOIN LATERAL (SELECT pictures.id_of(slot, name) AS id) made
 WHERE (name, n) <> ('purge_carts', 3)
 UNION ALL
SELECT name, slot_of(next, 3, step, zone), slot_of(next, 3, step, zone), NULL, NULL, NULL
  FROM plan WHERE name = 'purge_carts'
 UNION ALL
SELECT 'nightly_import', '2026-11-18 11:50Z', sent_at, id, NULL, NULL
  FROM horsies_tasks WHERE task_name = 'nightly_import'
 UNION ALL
(SELECT DISTINCT ON (slot) 'sync_inventory', slot, slot, id, NULL, NULL
   FROM horsies_tasks
  CROSS JOIN LATERAL (SELECT date_bin('5 min', sent_at, now() + interval '3 min 12 s') AS slot) at
  WHERE task_name = 'sync_inventory' ORDER BY slot, sent_at)
 UNION ALL
SELECT 'daily_sales', sent_at, sent_at, id, NULL, 'ops@bastion'
  FROM horsies_tasks WHERE task_name = 'build_report' AND error_code = 'TASK_INTERRUPTED';
INSERT INTO horsies_schedule_state (schedule_name, last_run_at, next_run_at, run_count, config_hash)
SELECT name, (SELECT max(sent_at) FROM horsies_schedule_runs WHERE schedule_name = name), next,
       31 * (SELECT count(*) FROM horsies_schedule_runs WHERE schedule_name = name), md5(pattern)
  FROM plan;
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, started_at, seen_at)
SELECT host || '-' || pid || '-9c1e', host, pid, array_agg(name ORDER BY name), '1.0.0', now() - interval '5 h',
       now() - CASE host WHEN 'web-3' THEN interval '304 s' ELSE interval '2 s' END
  FROM plan GROUP BY host, pid;
