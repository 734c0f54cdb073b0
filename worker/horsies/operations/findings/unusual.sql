-- name: diagnose_names_that_run
-- findings/unusual.py; reads only ($1 for how long at least, in s; $2 names at most): those that have run longest first
SELECT task_name
  FROM horsies_tasks
 WHERE status = 'RUNNING' AND started_at < now() - $1::float8 * interval '1 s'
 GROUP BY task_name
 ORDER BY min(started_at)
 LIMIT $2

-- name: diagnose_long_runs
-- findings/unusual.py; reads only: tasks that have run for longer than is usual
-- ($1 names, $2 from which time on each is unusual, in s; $3 how old its newest beat may be, in ms; $4 ids of each)
-- A run without a recent beat is left to `diagnose_in_flight`, which says what a sweep will do.
SELECT task_name, queue_name, count(*) AS count, min(started_at)::timestamptz AS since,
       (array_agg(id ORDER BY started_at, id))[1:$4::integer] AS ids
  FROM horsies_tasks task
  JOIN unnest($1::text[], $2::float8[]) AS far (name, after_s) ON name = task_name
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE status = 'RUNNING'
   AND date_part('epoch', now()) - date_part('epoch', started_at) > after_s
   AND COALESCE(beat.sent_at, started_at) >= now() - $3 * interval '1 ms'
 GROUP BY task_name, queue_name

-- name: diagnose_behind_busy
-- findings/unusual.py; reads only: claims that wait while all processes of their worker run, and another worker that
-- serves the queue and knows the name has had room for as long
-- ($1 for how long, in s; $2 how old the newest snapshot of a live worker may be, in s; $3 workers with an order to
-- drain, $4 ids of each)
WITH held AS MATERIALIZED (
    SELECT claimed_by_worker_id AS worker_id, queue_name, count(*) FILTER (WHERE status = 'RUNNING') AS running,
           count(*) FILTER (WHERE status = 'CLAIMED') AS claimed
      FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') GROUP BY claimed_by_worker_id, queue_name
), load AS (
    SELECT worker_id, sum(running) AS running, sum(claimed) AS claimed FROM held GROUP BY worker_id
), fleet AS (
    SELECT DISTINCT ON (worker_id) worker_id, queues::text[] AS queues, processes
      FROM horsies_worker_states
     WHERE snapshot_at > now() - $2::float8 * interval '1 s'
     ORDER BY worker_id, snapshot_at DESC
), idle AS MATERIALIZED (
    SELECT fleet.worker_id, queues, reported.names,
           LEAST(lately.free, fleet.processes - COALESCE(load.running + load.claimed, 0)) AS free
      FROM fleet
      LEFT JOIN load USING (worker_id)
           -- A column that the table in the subquery lacks is resolved here: upstream's table has no such columns.
     CROSS JOIN (SELECT NULL::text[], NULL::boolean) absent (task_names, draining)
     CROSS JOIN LATERAL (
           SELECT min(own.processes - own.tasks_running - own.tasks_claimed) AS free, bool_or(own.drains) AS drains,
                  min(own.snapshot_at) AS since
             FROM (SELECT processes, tasks_running, tasks_claimed, draining AS drains, snapshot_at
                     FROM horsies_worker_states
                    WHERE worker_id = fleet.worker_id AND snapshot_at > now() - ($1::float8 + 6) * interval '1 s') own
           ) lately
      LEFT JOIN LATERAL (
            SELECT said.names
              FROM (SELECT worker_id, snapshot_at, task_names AS names FROM horsies_worker_states
                     WHERE worker_id = fleet.worker_id AND snapshot_at > now() - interval '10 min') said
             WHERE said.names IS NOT NULL
             ORDER BY said.worker_id, said.snapshot_at DESC
             LIMIT 1) reported ON true
     WHERE lately.free > 0 AND lately.since < now() - $1::float8 * interval '1 s'
       AND NOT COALESCE(lately.drains, false) AND fleet.worker_id <> ALL ($3::text[])
)
SELECT task.claimed_by_worker_id AS worker_id, busy.processes, task_name, task.queue_name, count(*) AS count,
       min(claimed_at)::timestamptz AS since, (array_agg(task.id ORDER BY claimed_at, task.id))[1:$4::integer] AS ids,
       (array_agg(room.worker_id ORDER BY room.free DESC, room.worker_id))[1] AS idle_id, max(room.free) AS free,
       (SELECT COALESCE(sum(running), 0) FROM held WHERE held.queue_name = task.queue_name) AS running,
       (SELECT COALESCE(sum(running), 0) FROM held) AS running_in_all
  FROM horsies_tasks task
  JOIN fleet busy ON busy.worker_id = task.claimed_by_worker_id
  JOIN load ON load.worker_id = busy.worker_id AND load.running >= busy.processes
 CROSS JOIN LATERAL (
       SELECT idle.worker_id, idle.free FROM idle
        WHERE idle.worker_id <> busy.worker_id AND idle.free > 0 AND task.queue_name = ANY (idle.queues)
          AND (idle.names IS NULL OR task.task_name = ANY (idle.names))
        ORDER BY idle.free DESC, idle.worker_id
        LIMIT 1) room
 WHERE status = 'CLAIMED' AND claimed_at < now() - $1::float8 * interval '1 s'
   AND COALESCE(claim_expires_at >= now(), true)
 GROUP BY task.claimed_by_worker_id, busy.processes, task_name, task.queue_name
