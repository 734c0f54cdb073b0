-- recovering.recover_stale_runs, its scan; reads only
-- ($1 threshold in ms, $2 threshold of finalizing marks in ms, $3 interval of the beats in ms, $4 how many)
WITH judged AS MATERIALIZED (
    SELECT worker_id, horsies_runs_silent_before(worker_id, $1, $3) AS silent_before
      FROM (SELECT DISTINCT COALESCE(claimed_by_worker_id, '') AS worker_id FROM horsies_tasks
             WHERE status = 'RUNNING') running
)
SELECT task.id, task.claimed_by_worker_id, task.claimed_at, task.retry_count, task.max_retries, task.task_options,
       task.good_until, COALESCE(task.started_at, task.claimed_at, task.updated_at) AS started_at, task.worker_pid,
       task.worker_hostname, beat.sent_at AS last_beat, statement_timestamp() AS detected_at
  FROM horsies_tasks task
  JOIN judged ON judged.worker_id = COALESCE(task.claimed_by_worker_id, '')
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
         ORDER BY sent_at DESC
         LIMIT 1) beat ON true
 WHERE task.status = 'RUNNING'
   AND COALESCE(task.started_at, task.claimed_at, task.updated_at) < judged.silent_before
   AND (beat.sent_at IS NULL OR beat.sent_at < judged.silent_before)
   AND (task.finalizing_at IS NULL OR task.finalizing_at < (SELECT horsies_silent_before($2, $3)))
 ORDER BY task.id
 LIMIT $4
