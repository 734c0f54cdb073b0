-- name: diagnose_names_that_run
-- searches/unusual.py; reads only ($1 for how long at least, in s; $2 names at most): those that have run longest first
SELECT task_name, date_part('epoch', now() - min(started_at)::timestamptz) AS runs_s
  FROM horsies_tasks
 WHERE status = 'RUNNING' AND started_at < now() - $1::float8 * interval '1 s'
 GROUP BY task_name
 ORDER BY min(started_at)
 LIMIT $2

-- name: diagnose_queues_that_wait
-- searches/unusual.py; reads only: the queues in which a due task has waited ($1 for how long, in s), and how many run
-- Of each priority of each queue the first hundred tasks: a retry that is due later stands among them.
WITH RECURSIVE /* levels */, held AS MATERIALIZED (
    SELECT queue_name, count(*) FILTER (WHERE status = 'RUNNING') AS running
      FROM horsies_tasks WHERE status IN /* tasks_in_flight */ GROUP BY queue_name
)
SELECT DISTINCT level.queue_name::text, COALESCE(held.running, 0) AS running,
       (SELECT COALESCE(sum(running), 0) FROM held) AS running_in_all
  FROM level
  LEFT JOIN held ON held.queue_name = level.queue_name
 CROSS JOIN LATERAL (
        SELECT FROM (SELECT GREATEST(enqueued_at, next_retry_at) AS due_at
                       FROM horsies_tasks
                      WHERE status = 'PENDING' AND queue_name = level.queue_name AND priority = level.priority
                        AND enqueued_at < now() - $1::float8 * interval '1 s'
                      ORDER BY enqueued_at, id LIMIT 100) first_ones
         WHERE due_at < now() - $1::float8 * interval '1 s' LIMIT 1) waits

-- name: diagnose_full_workers
-- searches/unusual.py; reads only: workers all of whose processes run, where claims have waited ($1 for how long, in s)
-- or that serve one of the queues that wait ($3; $2 how old the newest snapshot of a live worker may be, in s)
SELECT held.worker_id
  FROM (SELECT claimed_by_worker_id AS worker_id, count(*) FILTER (WHERE status = 'RUNNING') AS running,
               COALESCE(bool_or(status = 'CLAIMED' AND claimed_at < now() - $1::float8 * interval '1 s'), false) AS waits
          FROM horsies_tasks WHERE status IN /* tasks_in_flight */ GROUP BY claimed_by_worker_id) held
  JOIN (SELECT DISTINCT ON (worker_id) worker_id, queues::text[] AS queues, processes
          FROM horsies_worker_states
         WHERE snapshot_at > now() - $2::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) fleet USING (worker_id)
 WHERE held.running >= fleet.processes AND (held.waits OR fleet.queues && $3::text[])

-- name: diagnose_long_runs
-- searches/unusual.py; reads only: tasks that have run for longer than is usual
-- ($1 names, $2 from which time on each is unusual, in s; $3 the same where others wait for its place: on one of the
-- workers $4, in one of the queues $5, or in its child for $6 s; $7 how old its newest beat may be, in ms; $8 ids of
-- each)
-- A run without a recent beat is left to `diagnose_in_flight`, which says what a sweep will do. A child starts its jobs
-- in their order, which is that of the claim: the first may be what keeps the others from beginning.
WITH candidate AS MATERIALIZED (
    SELECT id, task_name, queue_name, started_at, claimed_by_worker_id AS worker_id, worker_pid, after_s, wanted_after_s,
           COALESCE(claimed_by_worker_id = ANY ($4::text[]) OR queue_name = ANY ($5::text[]), false) AS wanted
      FROM horsies_tasks
      JOIN unnest($1::text[], $2::float8[], $3::float8[]) AS far (name, after_s, wanted_after_s) ON name = task_name
     WHERE status = 'RUNNING' AND date_part('epoch', now()) - date_part('epoch', started_at) > wanted_after_s
), child AS MATERIALIZED (
    SELECT DISTINCT ON (claimed_by_worker_id, worker_pid) claimed_by_worker_id AS worker_id, worker_pid, id, task_name,
           started_at, count(*) FILTER (WHERE started_at < now() - $6::float8 * interval '1 s')
                       OVER (PARTITION BY claimed_by_worker_id, worker_pid) - 1 AS others
      FROM horsies_tasks
     WHERE status = 'RUNNING' AND worker_pid IS NOT NULL
           -- In a CASE it is a subquery that is hashed once, however it is planned; a join might loop over them.
       AND CASE WHEN claimed_by_worker_id IN (SELECT worker_id FROM candidate) THEN true END
     ORDER BY claimed_by_worker_id, worker_pid, started_at, claimed_at, priority, enqueued_at, id
), far AS (
    SELECT task.*, child.others, child.id AS first_id, child.task_name AS first_name, child.started_at AS first_since
      FROM candidate task
      LEFT JOIN child ON child.worker_id = task.worker_id AND child.worker_pid = task.worker_pid
      LEFT JOIN LATERAL /* run_beat */ beat ON true
     WHERE date_part('epoch', now()) - date_part('epoch', task.started_at)
           > CASE WHEN wanted OR child.id = task.id AND child.others > 0 THEN wanted_after_s ELSE after_s END
       AND COALESCE(beat.sent_at, task.started_at) >= now() - $7 * interval '1 ms'
)
SELECT task_name, queue_name, count(*) AS count, min(started_at)::timestamptz AS since,
       (array_agg(id ORDER BY started_at, id))[1:$8::integer] AS ids,
       (array_agg(worker_id ORDER BY started_at, id))[1] AS worker_id,
       (array_agg(worker_pid ORDER BY started_at, id))[1] AS worker_pid, bool_or(wanted) AS wanted,
       (array_agg(others ORDER BY started_at, id))[1] AS others, behind,
       (array_agg(first_id ORDER BY started_at, id))[1] AS first_id,
       (array_agg(first_name ORDER BY started_at, id))[1] AS first_name,
       (array_agg(first_since ORDER BY started_at, id))[1]::timestamptz AS first_since,
       count(DISTINCT first_id) AS children
  FROM (SELECT far.*, COALESCE(first_id <> id, false) AS behind FROM far) judged
 GROUP BY task_name, queue_name, behind

-- name: diagnose_behind_busy
-- searches/unusual.py; reads only: claims that wait while all processes of their worker run, and another worker that
-- serves the queue and knows the name has had room for as long; with the task that has run longest on that worker
-- ($1 for how long, in s; $2 how old the newest snapshot of a live worker may be, in s; $3 workers with an order to
-- drain, $4 ids of each)
WITH held AS MATERIALIZED (
    SELECT claimed_by_worker_id AS worker_id, queue_name, count(*) FILTER (WHERE status = 'RUNNING') AS running,
           count(*) FILTER (WHERE status = 'CLAIMED') AS claimed
      FROM horsies_tasks WHERE status IN /* tasks_in_flight */ GROUP BY claimed_by_worker_id, queue_name
), load AS (
    SELECT worker_id, sum(running) AS running, sum(claimed) AS claimed FROM held GROUP BY worker_id
), fleet AS (
    SELECT DISTINCT ON (worker_id) worker_id, queues::text[] AS queues, processes
      FROM horsies_worker_states
     WHERE snapshot_at > now() - $2::float8 * interval '1 s'
     ORDER BY worker_id, snapshot_at DESC
), longest AS MATERIALIZED (
    SELECT DISTINCT ON (claimed_by_worker_id) claimed_by_worker_id AS worker_id, id, task_name, started_at
      FROM horsies_tasks WHERE status = 'RUNNING' AND started_at IS NOT NULL
     ORDER BY claimed_by_worker_id, started_at, claimed_at, priority, enqueued_at, id
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
SELECT task.claimed_by_worker_id AS worker_id, busy.processes, task.task_name, task.queue_name, count(*) AS count,
       min(claimed_at)::timestamptz AS since, (array_agg(task.id ORDER BY claimed_at, task.id))[1:$4::integer] AS ids,
       (array_agg(room.worker_id ORDER BY room.free DESC, room.worker_id))[1] AS idle_id, max(room.free) AS free,
       (SELECT COALESCE(sum(running), 0) FROM held WHERE held.queue_name = task.queue_name) AS running,
       (SELECT COALESCE(sum(running), 0) FROM held) AS running_in_all,
       longest.id AS first_id, longest.task_name AS first_name, longest.started_at::timestamptz AS first_since
  FROM horsies_tasks task
  JOIN fleet busy ON busy.worker_id = task.claimed_by_worker_id
  JOIN load ON load.worker_id = busy.worker_id AND load.running >= busy.processes
 CROSS JOIN LATERAL (
       SELECT idle.worker_id, idle.free FROM idle
        WHERE idle.worker_id <> busy.worker_id AND idle.free > 0 AND task.queue_name = ANY (idle.queues)
          AND (idle.names IS NULL OR task.task_name = ANY (idle.names))
        ORDER BY idle.free DESC, idle.worker_id
        LIMIT 1) room
  LEFT JOIN longest ON longest.worker_id = busy.worker_id
 WHERE status = 'CLAIMED' AND claimed_at < now() - $1::float8 * interval '1 s'
   AND COALESCE(claim_expires_at >= now(), true)
 GROUP BY task.claimed_by_worker_id, busy.processes, task.task_name, task.queue_name, longest.id, longest.task_name,
          longest.started_at
