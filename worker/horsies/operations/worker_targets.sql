-- name: order_workers
-- operations/worker_targets.py, at the preview and again before a recovery; reads only
-- ($1 workers, $2 finalizing_stale_threshold_ms if a worker does not report its own, $3 the silence of a dead worker in
-- ms, $4 interval of the snapshots in ms)
-- A sign of life is a snapshot, a beat for a task of the worker, a claim or a start. Silence is excused while a gap of
-- the pulse that has just ended explains it. Not while the gap lasts: if no worker is alive, an operator must not wait
-- for one.
SELECT asked.worker_id, newest.snapshot_at, COALESCE(in_flight.claimed, 0) AS claimed,
       COALESCE(in_flight.running, 0) AS running,
       GREATEST(newest.snapshot_at, in_flight.last_act) AS last_sign,
       date_part('epoch', statement_timestamp()) - date_part('epoch', GREATEST(newest.snapshot_at, in_flight.last_act))
            AS silent_s,
       given.draining_since, given.ordered_by,
       -- As JSON, in which texts, true and false lie outside of these bounds: a cast of them would fail.
       CASE WHEN newest.recovery_config -> 'finalizing_stale_threshold_ms' BETWEEN '0' AND '2147483647'
            THEN (newest.recovery_config -> 'finalizing_stale_threshold_ms')::integer
            ELSE $2::integer END AS finalizing_ms,
       statement_timestamp() AS now,
       COALESCE(GREATEST(newest.snapshot_at, in_flight.last_act) >= horsies_silent_before($3::float8, $4::float8)
                AND EXISTS (SELECT FROM horsies_pulse
                             WHERE beaten_at >= statement_timestamp() - horsies_harmless_gap($3::float8, $4::float8)), false) AS excused
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (worker_id, number)
  LEFT JOIN LATERAL (
        -- Not "= asked.worker_id", which would allow a plan that reads back in time through the snapshots of all
        -- workers.
        SELECT worker_id, snapshot_at, recovery_config FROM horsies_worker_states WHERE worker_id >= asked.worker_id
         ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest ON newest.worker_id = asked.worker_id
  LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE task.status = 'CLAIMED') AS claimed,
               count(*) FILTER (WHERE task.status = 'RUNNING') AS running,
               max(GREATEST(task.claimed_at, task.started_at, beat.sent_at)) AS last_act
          FROM horsies_tasks task
          LEFT JOIN LATERAL (
                SELECT sent_at FROM horsies_heartbeats
                 WHERE task_id = task.id AND sent_at >= task.claimed_at
                   AND role = CASE task.status WHEN 'CLAIMED' THEN 'claimer' ELSE 'runner' END
                 ORDER BY sent_at DESC LIMIT 1) beat ON true
         WHERE task.status IN /* tasks_in_flight */ AND task.claimed_by_worker_id = asked.worker_id) in_flight ON true
  LEFT JOIN horsies_worker_orders given ON given.worker_id = asked.worker_id
 ORDER BY asked.number

-- name: order_known_dead
-- operations/worker_targets.py, for workers to acknowledge; reads only: those that lost tasks. Retention may have deleted
-- their snapshots.
WITH /* crashed */
SELECT worker_id FROM horsies_worker_losses
 UNION
SELECT claimed_by_worker_id FROM crashed WHERE claimed_by_worker_id IS NOT NULL

-- name: order_known
-- operations/worker_targets.py, for abbreviated ids; reads only
-- Each worker id of the snapshots by one probe of ix_horsies_worker_states_worker_latest, and the owners of tasks.
WITH RECURSIVE reported AS (
    (SELECT worker_id FROM horsies_worker_states ORDER BY worker_id LIMIT 1)
     UNION ALL
    SELECT next.worker_id
      FROM reported
     CROSS JOIN LATERAL (SELECT worker_id FROM horsies_worker_states WHERE worker_id > reported.worker_id
                          ORDER BY worker_id LIMIT 1) next
)
SELECT worker_id FROM reported
 UNION
SELECT claimed_by_worker_id FROM horsies_tasks
 WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id IS NOT NULL
 ORDER BY worker_id
