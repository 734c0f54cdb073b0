-- name: store_progress
-- progress.store_progress; the token and RUNNING; of a run that has ended, the attempt that this worker has stored
-- ($1 worker, $2 tasks, $3 claimed at, $4 ended, $5 done, $6 totals, $7 units, $8 rates per s, $9 usual s between two
-- changes)
-- No row of horsies_tasks is locked. A claim that moves after it was read does no harm: the row is that of the old run.
-- 1 task 0.15 ms, 1 000 tasks 6 ms (tests/bench/test_progress_cost.py).
INSERT INTO horsies_progress AS stored (task_id, started_at, done, total, unit, rate, gap_s, reported_at)
SELECT token.id, run.started_at, token.done, token.total, token.unit, token.rate, token.gap_s, statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::boolean[], $5::double precision[], $6::double precision[], $7::text[],
              $8::double precision[], $9::double precision[])
       AS token (id, claimed_at, ended, done, total, unit, rate, gap_s)
 CROSS JOIN LATERAL (
        SELECT COALESCE(started_at, claimed_at) AS started_at
          FROM horsies_tasks
         WHERE id = token.id AND NOT token.ended
           AND CASE WHEN status = 'RUNNING' AND claimed_by_worker_id = $1 THEN claimed_at = token.claimed_at END
         UNION ALL
        (SELECT started_at FROM horsies_task_attempts
          WHERE task_id = token.id AND token.ended AND worker_id = $1 AND started_at >= token.claimed_at
          ORDER BY attempt LIMIT 1)) run
       -- It is worth no wait for the disk.
 WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ON CONFLICT (task_id, started_at) DO UPDATE
   SET done = EXCLUDED.done, total = EXCLUDED.total, unit = EXCLUDED.unit, rate = EXCLUDED.rate,
       gap_s = EXCLUDED.gap_s, reported_at = EXCLUDED.reported_at
