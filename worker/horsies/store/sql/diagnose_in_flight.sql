-- diagnose_held.py; reads only ($1 stale claim, $2 stale run, $3 stale finalizing, all in ms, $4 rows of each kind)
-- Stale is what stale_claims.sql and stale_runs.sql take. Of each name, queue and worker the oldest come first, so that
-- one name with thousands of rows does not hide the others.
WITH trouble AS (
    SELECT CASE WHEN run.stale AND COALESCE(run.finalizing_at < now() - $3 * interval '1 ms', true)
                THEN 'stale run' ELSE 'finalizing' END AS kind, run.*
           -- Upstream's table may lack the column: then the name in the subquery means this one.
      FROM (SELECT NULL::timestamptz) absent (finalizing_at)
     CROSS JOIN LATERAL (
            SELECT id, task_name, queue_name, claimed_by_worker_id,
                   COALESCE(started_at, claimed_at, updated_at)::timestamptz AS began_at,
                   beat.sent_at::timestamptz AS last_beat,
                   finalizing_at::timestamptz AS finalizing_at, claim_expires_at::timestamptz AS claim_expires_at,
                   retry_count, max_retries, good_until::timestamptz AS good_until, task_options,
                   COALESCE(started_at, claimed_at, updated_at) < now() - $2 * interval '1 ms'
                   AND COALESCE(beat.sent_at < now() - $2 * interval '1 ms', true) AS stale
              FROM horsies_tasks task
                   -- Not EXISTS: of that a plan may make a hash of all beats that there are.
              LEFT JOIN LATERAL (
                    SELECT sent_at FROM horsies_heartbeats
                     WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
                     ORDER BY sent_at DESC
                     LIMIT 1) beat ON true
             WHERE status = 'RUNNING') run
     WHERE run.stale OR run.finalizing_at < now() - $3 * interval '1 ms'
     UNION ALL
    SELECT CASE WHEN claim.stale THEN 'stale claim' ELSE 'lease ran out' END, claim.*
      FROM (SELECT id, task_name, queue_name, claimed_by_worker_id,
                   COALESCE(claimed_at, updated_at)::timestamptz AS began_at,
                   beat.sent_at::timestamptz AS last_beat,
                   NULL::timestamptz AS finalizing_at, claim_expires_at::timestamptz AS claim_expires_at,
                   retry_count, max_retries, good_until::timestamptz AS good_until, task_options,
                   COALESCE(claimed_at, updated_at) < now() - $1 * interval '1 ms'
                   AND COALESCE(beat.sent_at < now() - $1 * interval '1 ms', true) AS stale
              FROM horsies_tasks task
              LEFT JOIN LATERAL (
                    SELECT sent_at FROM horsies_heartbeats
                     WHERE task_id = task.id AND role = 'claimer' AND sent_at >= task.claimed_at
                     ORDER BY sent_at DESC
                     LIMIT 1) beat ON true
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
