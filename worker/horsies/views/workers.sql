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

-- name: view_losses
-- views/workers.py; reads only
-- ($1 for how long acknowledged ones are returned, NULL for ever; $2 rows read at most; $3 ids of each kind)
-- For each worker the unacknowledged losses, or else the acknowledged ones. Rows are few: one for 200 tasks of a dead
-- worker.
WITH lost AS (
    SELECT loss.id, loss.worker_id, loss.taken_at, loss.failed, loss.retried, loss.returned, done.acted_at, done.by
      FROM (SELECT id, worker_id, taken_at, failed, retried, returned FROM horsies_worker_losses
             ORDER BY taken_at DESC, id DESC LIMIT $2::integer) loss
      LEFT JOIN LATERAL (
            SELECT acted_at, os_user || '@' || os_host AS by
              FROM horsies_operator_actions action
             WHERE action.target_id = loss.worker_id AND acted_at >= loss.taken_at AND /* knows_of_death */
             ORDER BY id DESC LIMIT 1) done ON true
), told AS (
    SELECT lost.*, lost.acted_at IS NULL AS open,
           rank() OVER (PARTITION BY worker_id ORDER BY (acted_at IS NULL) DESC) = 1 AS first
      FROM lost
     WHERE acted_at IS NULL OR $1::interval IS NULL OR acted_at >= statement_timestamp() - $1::interval
)
SELECT worker_id, max(taken_at) AS taken_at, newest.snapshot_at, sum(cardinality(failed))::integer AS failed,
       sum(cardinality(retried))::integer AS retried, sum(cardinality(returned))::integer AS returned,
       -- Separate arrays, because two-dimensional arrays cannot be joined.
       (ARRAY(SELECT each.id FROM told mine
               CROSS JOIN LATERAL (SELECT unnest(failed) UNION ALL SELECT unnest(retried) UNION ALL SELECT unnest(returned))
                          AS each (id)
               WHERE mine.worker_id = told.worker_id AND mine.first ORDER BY mine.id LIMIT $3::integer)) AS ids,
       max(acted_at) AS acknowledged_at, max(by) AS acknowledged_by
  FROM told
  LEFT JOIN LATERAL (
        -- By both columns, as in `order_workers`.
        SELECT worker_id AS of_worker, snapshot_at FROM horsies_worker_states WHERE worker_id >= told.worker_id
         ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest ON newest.of_worker = told.worker_id
 WHERE first
 GROUP BY worker_id, newest.snapshot_at
 ORDER BY worker_id
