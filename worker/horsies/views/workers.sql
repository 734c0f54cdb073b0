-- name: view_orders
-- views/workers.py; reads only: workers with the order to claim nothing more
SELECT worker_id, draining_since, ordered_by, reason FROM horsies_worker_orders WHERE draining_since IS NOT NULL

-- name: view_had_workers
-- views/workers.py; reads only: whether a worker has ever run here, even if only its tasks are left
SELECT EXISTS (SELECT FROM horsies_worker_states)
    OR EXISTS (SELECT FROM horsies_tasks WHERE status IN /* tasks_in_flight */)
    OR EXISTS (SELECT FROM horsies_task_attempts)

-- name: view_workers
-- views/workers.py; reads only
-- ($1 how long ago a worker without tasks may have been seen, NULL for all of them; $2 how old a snapshot may be before
-- beats are read, in s; $3 workers that are wanted however long ago they were seen)
-- Each worker's newest snapshot by one probe of ix_horsies_worker_states_worker_latest.
WITH RECURSIVE /* known */, in_flight AS (
    SELECT claimed_by_worker_id AS worker_id, count(*) FILTER (WHERE status = 'RUNNING') AS running,
           count(*) FILTER (WHERE status = 'CLAIMED') AS claimed,
           max(GREATEST(claimed_at, started_at)) AS act_at,
           (array_agg(id ORDER BY claimed_at DESC))[:100] AS newest_ids
      FROM horsies_tasks
     WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
)
SELECT statement_timestamp() AS now, worker_id, COALESCE(running, 0) AS running, COALESCE(claimed, 0) AS claimed, act_at,
       beat.sent_at AS beat_at, snapshot.*
  FROM known
  FULL JOIN in_flight USING (worker_id)
       -- A worker may be late with only its snapshots. The beats of its newest task are enough, because beats are sent
       -- for all tasks at once.
  LEFT JOIN LATERAL (
        SELECT max(newest.sent_at) AS sent_at
               -- Not as a condition of the join, which would be checked after reading the beats: 14 ms of 21 for 500
               -- workers.
          FROM unnest(CASE WHEN COALESCE(known.snapshot_at < statement_timestamp() - $2::float8 * interval '1 s', true)
                           THEN in_flight.newest_ids END) AS mine (id)
         CROSS JOIN unnest(ARRAY['runner', 'claimer']) AS of (role)
         CROSS JOIN LATERAL (SELECT sent_at FROM horsies_heartbeats
                              WHERE task_id = mine.id AND role = of.role
                              ORDER BY sent_at DESC LIMIT 1) newest
       ) beat ON true
  LEFT JOIN LATERAL (
        SELECT own.*
               -- Upstream's tables lack these columns: a name that the table does not have is then resolved here.
          FROM (VALUES (NULL::float8, NULL::text, NULL::boolean, NULL::text))
               AS absent (children_memory_mb, horsies_version, draining, app_version)
         CROSS JOIN LATERAL (
                SELECT snapshot_at, hostname, pid, processes, max_claim_batch, max_claim_per_worker, cluster_wide_cap,
                       queues::text[], queue_priorities, queue_max_concurrency, recovery_config, tasks_running,
                       tasks_claimed, memory_usage_mb, children_memory_mb, memory_percent, cpu_percent,
                       worker_started_at, horsies_version, draining, app_version
                  FROM horsies_worker_states
                 WHERE worker_id = known.worker_id
                 ORDER BY worker_id, snapshot_at DESC
                 LIMIT 1) own
       ) snapshot ON true
 WHERE in_flight.worker_id IS NOT NULL OR worker_id = ANY ($3::text[])
    OR $1::interval IS NULL OR known.snapshot_at >= statement_timestamp() - $1::interval
 ORDER BY worker_id

-- name: view_worker_clocks
-- views/workers.py; reads only ($1 how old the newest snapshot of a live worker may be, in s)
-- A worker reports one time by its own clock: that of its start. The database dates its first snapshot, which follows
-- at once. Each worker by two probes of ix_horsies_worker_states_worker_latest. If retention may have removed the first
-- one, the difference is unknown.
WITH RECURSIVE /* known */
SELECT known.worker_id, date_part('epoch', first.worker_started_at) - date_part('epoch', first.snapshot_at) AS ahead_s
  FROM known
 CROSS JOIN LATERAL (SELECT snapshot_at, worker_started_at FROM horsies_worker_states WHERE worker_id = known.worker_id
                      ORDER BY worker_id DESC, snapshot_at LIMIT 1) first
 WHERE known.snapshot_at >= statement_timestamp() - $1::float8 * interval '1 s'
   AND (first.worker_started_at > first.snapshot_at
        OR date_part('epoch', first.snapshot_at)
           > date_part('epoch', (SELECT snapshot_at FROM horsies_worker_states ORDER BY snapshot_at LIMIT 1)) + 60)
 ORDER BY known.worker_id

-- name: known
-- fragment of `view_workers` and `view_worker_clocks`: the time of the newest snapshot of each worker, by one probe of
-- ix_horsies_worker_states_worker_latest each
known AS (
    (SELECT worker_id, snapshot_at FROM horsies_worker_states ORDER BY worker_id, snapshot_at DESC LIMIT 1)
     UNION ALL
    SELECT next.worker_id, next.snapshot_at
      FROM known
     CROSS JOIN LATERAL (SELECT worker_id, snapshot_at FROM horsies_worker_states WHERE worker_id > known.worker_id
                          ORDER BY worker_id, snapshot_at DESC LIMIT 1) next
)
