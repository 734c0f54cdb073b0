-- scene.py, after flows.sql: what the workers have told in the last hour, every five seconds; busier and quieter in waves.
INSERT INTO horsies_worker_states (
    worker_id, snapshot_at, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues, tasks_running,
    tasks_claimed, memory_usage_mb, children_memory_mb, memory_percent, cpu_percent, worker_started_at, task_names,
    horsies_version, recovery_config)
SELECT worker_id, snapshot_at - n * interval '5 s', hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
       GREATEST(0, round(tasks_running * (0.9 + 0.5 * sin(wave)) + 0.7 * sin(wave * 5.3 + n)))::int,
       GREATEST(0, round(tasks_running * (0.4 + 0.4 * sin(wave * 1.7))))::int, 84 + 3 * sin(wave), 328 + 40 * sin(wave / 3),
       5.1, GREATEST(1, cpu_percent + 0.5 * cpu_percent * sin(wave) + 3 * sin(n)), worker_started_at,
       task_names, horsies_version, recovery_config
  FROM horsies_worker_states
 CROSS JOIN generate_series(1, 760) n
 CROSS JOIN LATERAL (SELECT pid / 5000.0 + n / 75.0 AS wave) at
 WHERE snapshot_at > now() + (n * 5 - 3750) * interval '1 s'
 ORDER BY n DESC, worker_id;
