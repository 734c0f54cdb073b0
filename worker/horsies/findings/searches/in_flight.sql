-- name: diagnose_in_flight
-- searches/in_flight.py; reads only ($1 stale claim, $2 stale run, $3 stale finalizing, in ms, $4 rows of each kind)
-- The last sign of life is that of `stale_claims` and `stale_runs`. The oldest of each name, queue and worker come
-- first, so that one name with thousands of rows does not hide the others.
WITH trouble AS (
    SELECT CASE WHEN run.stale AND COALESCE(run.finalizing_at < now() - $3 * interval '1 ms', true)
                THEN 'stale run' ELSE 'finalizing' END AS kind, run.*
           -- Upstream's table may lack the column: then the name in the subquery refers to this one.
      FROM (SELECT NULL::timestamptz) absent (finalizing_at)
     CROSS JOIN LATERAL (
            SELECT id, task_name, queue_name, claimed_by_worker_id,
                   COALESCE(started_at, claimed_at, updated_at)::timestamptz AS began_at,
                   beat.sent_at::timestamptz AS last_beat,
                   finalizing_at::timestamptz AS finalizing_at, claim_expires_at::timestamptz AS claim_expires_at,
                   retry_count, max_retries, good_until::timestamptz AS good_until, task_options,
                   COALESCE(beat.sent_at, started_at, claimed_at, updated_at) < now() - $2 * interval '1 ms' AS stale
              FROM horsies_tasks task
                   -- Not EXISTS, for which a plan may hash all beats.
              LEFT JOIN LATERAL /* run_beat */ beat ON true
             WHERE status = 'RUNNING') run
     WHERE run.stale OR run.finalizing_at < now() - $3 * interval '1 ms'
     UNION ALL
    SELECT CASE WHEN claim.stale THEN 'stale claim' ELSE 'lease ran out' END, claim.*
      FROM (SELECT id, task_name, queue_name, claimed_by_worker_id,
                   COALESCE(claimed_at, updated_at)::timestamptz AS began_at,
                   beat.sent_at::timestamptz AS last_beat,
                   NULL::timestamptz AS finalizing_at, claim_expires_at::timestamptz AS claim_expires_at,
                   retry_count, max_retries, good_until::timestamptz AS good_until, task_options,
                   COALESCE(beat.sent_at, claimed_at, updated_at) < now() - $1 * interval '1 ms' AS stale
              FROM horsies_tasks task
              LEFT JOIN LATERAL /* claim_beat */ beat ON true
             WHERE status = 'CLAIMED') claim
     WHERE claim.stale OR claim.claim_expires_at < now()
), numbered AS (
    SELECT trouble.*,
           row_number() OVER (PARTITION BY kind, task_name, queue_name, claimed_by_worker_id ORDER BY began_at, id)
               AS place,
           count(*) OVER (PARTITION BY kind, task_name, queue_name, claimed_by_worker_id) AS alike
      FROM trouble
), chosen AS (
    SELECT numbered.*, row_number() OVER (PARTITION BY kind ORDER BY place, began_at, id) AS turn FROM numbered
)
SELECT kind, stale, id, task_name, queue_name, claimed_by_worker_id, began_at, finalizing_at, claim_expires_at, alike,
       last_beat, retry_count, max_retries, good_until, task_options
  FROM chosen
 WHERE turn <= $4
 ORDER BY turn

-- name: diagnose_holders
-- searches/in_flight.py; reads only ($1 how long ago the last sign of a live worker may be in s, $2 workers at most)
SELECT held.worker_id, held.running, held.claimed, newest.snapshot_at,
       GREATEST(held.last_act, newest.snapshot_at, alive.beat) AS last_sign, alive.claim_sign, alive.run_sign
  FROM (SELECT claimed_by_worker_id AS worker_id,
               count(*) FILTER (WHERE status = 'RUNNING') AS running,
               count(*) FILTER (WHERE status = 'CLAIMED') AS claimed,
               max(GREATEST(claimed_at, started_at)) AS last_act
          FROM horsies_tasks
         WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id IS NOT NULL
         GROUP BY claimed_by_worker_id) held
  LEFT JOIN LATERAL (
        SELECT snapshot_at::timestamptz AS snapshot_at
          FROM horsies_worker_states
         WHERE worker_id = held.worker_id
               -- By both columns: with the time alone, the plan reads back through the rows of all other workers.
         ORDER BY worker_id, snapshot_at DESC
         LIMIT 1) newest ON true
       -- Its beats count too: a worker may be late with its snapshots only. Each sign is that of its oldest task, which
       -- becomes stale first.
 CROSS JOIN LATERAL (
        SELECT max(beat.sent_at)::timestamptz AS beat,
               min(GREATEST(task.claimed_at, beat.sent_at)) FILTER (WHERE task.status = 'CLAIMED') AS claim_sign,
               min(GREATEST(task.started_at, beat.sent_at)) FILTER (WHERE task.status = 'RUNNING') AS run_sign
          FROM (SELECT id, status, claimed_at, started_at FROM horsies_tasks
                 WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id = held.worker_id
                 LIMIT 1000) task
          LEFT JOIN LATERAL (
                SELECT sent_at FROM horsies_heartbeats
                 WHERE task_id = task.id AND role = CASE task.status WHEN 'CLAIMED' THEN 'claimer' ELSE 'runner' END
                 ORDER BY sent_at DESC
                 LIMIT 1) beat ON true) alive
 WHERE COALESCE(newest.snapshot_at < now() - $1::float8 * interval '1 s', true)
   AND held.last_act < now() - $1::float8 * interval '1 s'
   AND COALESCE(alive.beat < now() - $1::float8 * interval '1 s', true)
 ORDER BY last_sign
 LIMIT $2

-- name: diagnose_silence
-- searches/in_flight.py; reads only: since before which moment a claim, a finalizing mark and the runs of each worker
-- must be silent for the next sweep to handle them, by the functions that `stale_claims` and `stale_runs` call
-- ($1 threshold of claims and $2 interval of their beats, $3 and $4 the same of runs, $5 threshold of finalizing marks,
-- all in ms, $6 workers)
SELECT worker_id, silent.claims, silent.marks, horsies_runs_silent_before(worker_id::text, $3::float8, $4::float8) AS runs,
       horsies_runs_silent_before(worker_id::text, $3::float8, $4::float8) < silent.runs AS longer
  FROM unnest($6::text[]) AS owner (worker_id)
 CROSS JOIN (SELECT horsies_silent_before($1::float8, $2::float8) AS claims, horsies_silent_before($5::float8, $4::float8) AS marks,
                    horsies_silent_before($3::float8, $4::float8) AS runs OFFSET 0) silent
