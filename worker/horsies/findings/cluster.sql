-- name: diagnose_tables
-- findings/cluster.py; reads only: which of our own tables exist, as upstream creates none of them. From here on in
-- this transaction, a time that upstream stored without a zone is read as UTC
SELECT now() AS now, set_config('TimeZone', 'UTC', true),
       to_regclass('horsies_queue_state') IS NOT NULL AS queue_state,
       to_regclass('horsies_worker_orders') IS NOT NULL AS worker_orders,
       to_regclass('horsies_worker_losses') IS NOT NULL AS worker_losses,
       to_regclass('horsies_sweep_state') IS NOT NULL AS sweep_state,
       -- Created together with horsies_schedulers and horsies_schedule_runs.
       COALESCE(has_table_privilege(to_regclass('horsies_schedules'), 'SELECT'), false) AS schedules,
       COALESCE(has_table_privilege(to_regclass('horsies_pulse'), 'SELECT'), false) AS pulse

-- name: diagnose_sweep
-- findings/cluster.py; reads only ($1 rules)
-- A sweep is named by its rule, and by its threshold if it has one; see sweep_state.py.
SELECT split_part(sweep, ' ', 1) AS rule, 
       CASE WHEN split_part(sweep, ' ', 2) ~ '^[0-9]{1,9}$' THEN split_part(sweep, ' ', 2)::integer END AS threshold_ms, ran_at,
       worker_id, interval_ms
  FROM horsies_sweep_state
 WHERE split_part(sweep, ' ', 1) = ANY ($1::text[])
 ORDER BY sweep

-- name: diagnose_consumers
-- findings/cluster.py; reads only ($1 how old the newest snapshot of a live worker may be in s, $2 the workers that
-- drain)
-- Workers of one deployment are equal: 500 of them are returned as one row, with their names once.
SELECT newest.queues, newest.queue_max_concurrency, newest.cluster_wide_cap, newest.recovery_config, reported.names,
       min(newest.worker_started_at)::timestamptz AS since, count(*) AS workers,
       count(*) FILTER (WHERE newest.worker_id = ANY ($2::text[])) AS draining
  FROM (SELECT DISTINCT ON (worker_id) worker_id, queues, queue_max_concurrency, cluster_wide_cap, recovery_config,
               worker_started_at, processes
          FROM horsies_worker_states
         WHERE snapshot_at > now() - $1::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) newest
       -- A column that the table in the subquery lacks is resolved here: upstream's table has no such column.
 CROSS JOIN (SELECT NULL::text[]) absent (task_names)
  LEFT JOIN LATERAL (
        SELECT said.names
          FROM (SELECT worker_id, snapshot_at, task_names AS names FROM horsies_worker_states
                 WHERE worker_id = newest.worker_id AND snapshot_at > now() - interval '10 min') said
         WHERE said.names IS NOT NULL
         ORDER BY said.worker_id, said.snapshot_at DESC
         LIMIT 1) reported ON true
       -- The last snapshot of a stopped worker has 0.
 WHERE newest.processes > 0
 GROUP BY newest.queues, newest.queue_max_concurrency, newest.cluster_wide_cap, newest.recovery_config, reported.names

-- name: diagnose_settings
-- findings/cluster.py; reads only. The values of the newest snapshot of all workers
SELECT worker_id, recovery_config FROM horsies_worker_states ORDER BY snapshot_at DESC LIMIT 1
