-- diagnose_held.py; reads only ($1 how long ago the last sign of a living worker may be in s, $2 workers at most)
SELECT held.worker_id, held.running, held.claimed, newest.snapshot_at,
       GREATEST(held.last_act, newest.snapshot_at, alive.beat) AS last_sign, alive.claim_sign, alive.run_sign
  FROM (SELECT claimed_by_worker_id AS worker_id,
               count(*) FILTER (WHERE status = 'RUNNING') AS running,
               count(*) FILTER (WHERE status = 'CLAIMED') AS claimed,
               max(GREATEST(claimed_at, started_at)) AS last_act
          FROM horsies_tasks
         WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL
         GROUP BY claimed_by_worker_id) held
  LEFT JOIN LATERAL (
        SELECT snapshot_at::timestamptz AS snapshot_at
          FROM horsies_worker_states
         WHERE worker_id = held.worker_id
               -- By both columns: by the time alone, the plan walks back through the rows of all other workers.
         ORDER BY worker_id, snapshot_at DESC
         LIMIT 1) newest ON true
       -- Its beats count too: a worker may be late with its snapshots only. Each sign is the oldest of what it holds, for
       -- that one is stale first.
 CROSS JOIN LATERAL (
        SELECT max(beat.sent_at)::timestamptz AS beat,
               min(GREATEST(task.claimed_at, beat.sent_at)) FILTER (WHERE task.status = 'CLAIMED') AS claim_sign,
               min(GREATEST(task.started_at, beat.sent_at)) FILTER (WHERE task.status = 'RUNNING') AS run_sign
          FROM (SELECT id, status, claimed_at, started_at FROM horsies_tasks
                 WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = held.worker_id
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
