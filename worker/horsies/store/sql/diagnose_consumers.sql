-- cluster.py; reads only ($1 how old the newest snapshot of a living worker may be in s, $2 the workers that drain)
-- Workers of one deployment are alike: 500 of them come back as one row, with their names once.
SELECT newest.queues, newest.queue_max_concurrency, newest.cluster_wide_cap, newest.recovery_config, told.names,
       min(newest.worker_started_at)::timestamptz AS since, count(*) AS workers, count(*) FILTER (WHERE newest.worker_id = ANY ($2::text[])) AS draining
  FROM (SELECT DISTINCT ON (worker_id) worker_id, queues, queue_max_concurrency, cluster_wide_cap, recovery_config,
               worker_started_at
          FROM horsies_worker_states
         WHERE snapshot_at > now() - $1::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) newest
       -- A name that the table in the subquery does not have is looked up out here: upstream's table has no such column.
 CROSS JOIN (SELECT NULL::text[]) absent (task_names)
  LEFT JOIN LATERAL (
        SELECT said.names
          FROM (SELECT worker_id, snapshot_at, task_names AS names FROM horsies_worker_states
                 WHERE worker_id = newest.worker_id AND snapshot_at > now() - interval '10 min') said
         WHERE said.names IS NOT NULL
         ORDER BY said.worker_id, said.snapshot_at DESC
         LIMIT 1) told ON true
 GROUP BY newest.queues, newest.queue_max_concurrency, newest.cluster_wide_cap, newest.recovery_config, told.names
