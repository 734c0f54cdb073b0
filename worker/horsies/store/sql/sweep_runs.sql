-- recovering.recover_stale_runs; the token, RUNNING, still no beat nor a fresh finalizing mark; to run again also budget left
-- and due before good_until; a row that somebody holds is left for next time ($1 tasks, $2 workers, $3 claimed at,
--  $4 delays in s, NULL to fail, $5 results, $6 messages, $7 threshold in ms, $8 threshold of finalizing marks in ms,
--  $9 interval of the beats in ms)
WITH judged AS MATERIALIZED (
    SELECT worker_id, horsies_runs_silent_before(worker_id, $7, $9) AS silent_before
      FROM (SELECT DISTINCT COALESCE(worker_id, '') AS worker_id FROM unnest($2::text[]) AS seen (worker_id)) owner
), stale AS MATERIALIZED (
    SELECT task.id, task.retry_count, task.claimed_by_worker_id, task.worker_pid, task.worker_hostname,
           task.worker_process_name, COALESCE(task.started_at, task.claimed_at, task.updated_at) AS started_at,
           seen.result, seen.message, statement_timestamp() + seen.delay_s * interval '1 s' AS due,
           COALESCE(task.retry_count < task.max_retries
                    AND statement_timestamp() + seen.delay_s * interval '1 s'
                        < COALESCE(task.good_until, 'infinity'), false) AS again
      FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::double precision[], $5::text[], $6::text[])
           AS seen (id, worker_id, claimed_at, delay_s, result, message)
      JOIN judged ON judged.worker_id = COALESCE(seen.worker_id, '')
      JOIN horsies_tasks task ON task.id = seen.id
     WHERE task.id = ANY ($1)
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id IS NOT DISTINCT FROM seen.worker_id
                     AND task.claimed_at IS NOT DISTINCT FROM seen.claimed_at
                     AND (task.finalizing_at IS NULL
                          OR task.finalizing_at < (SELECT horsies_silent_before($8, $9)))
                THEN COALESCE((SELECT sent_at FROM horsies_heartbeats
                                WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
                                ORDER BY sent_at DESC LIMIT 1),
                              task.started_at, task.claimed_at, task.updated_at)
                     < judged.silent_before END
       FOR NO KEY UPDATE OF task SKIP LOCKED
), recovered AS (
    UPDATE horsies_tasks task
       SET status = CASE WHEN again THEN 'PENDING' ELSE 'FAILED' END,
           retry_count = task.retry_count + again::integer,
           enqueued_at = CASE WHEN again THEN stale.due ELSE task.enqueued_at END,
           next_retry_at = CASE WHEN again THEN stale.due ELSE task.next_retry_at END,
           completed_at = NULL, failed_at = CASE WHEN NOT again THEN statement_timestamp() END,
           result = CASE WHEN NOT again THEN stale.result END,
           error_code = CASE WHEN NOT again THEN 'WORKER_CRASHED' END,
           failed_reason = CASE WHEN NOT again THEN stale.message END,
           -- Who ran it last stays in the row of a failed task, as after a finish; a waiting one has no owner.
           claimed_at = CASE WHEN NOT again THEN task.claimed_at END,
           claimed_by_worker_id = CASE WHEN NOT again THEN task.claimed_by_worker_id END,
           started_at = CASE WHEN NOT again THEN task.started_at END,
           worker_pid = CASE WHEN NOT again THEN task.worker_pid END,
           worker_hostname = CASE WHEN NOT again THEN task.worker_hostname END,
           worker_process_name = CASE WHEN NOT again THEN task.worker_process_name END,
           claimed = false, claim_expires_at = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
      FROM stale
           -- Not also `= ANY ($1)`: by that all 200 were read again for each of the 200, 27 ms of 34 ms for a batch.
     WHERE task.id = stale.id
    RETURNING task.id, task.queue_name, stale.again
), history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name)
    SELECT id,
           GREATEST(retry_count, (SELECT attempt FROM horsies_task_attempts WHERE task_id = stale.id
                                   ORDER BY attempt DESC LIMIT 1)) + 1,
           'FAILED', again, started_at, statement_timestamp(), 'WORKER_CRASHED', message, message,
           claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name
      FROM stale
), lost AS (
    -- What became of all that the worker held, for those who look at it later.
    INSERT INTO horsies_worker_losses (worker_id, failed, retried)
    SELECT claimed_by_worker_id, COALESCE(array_agg(id ORDER BY id) FILTER (WHERE NOT again), '{}'),
           COALESCE(array_agg(id ORDER BY id) FILTER (WHERE again), '{}')
      FROM stale
     WHERE claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
)
SELECT id, again
  FROM recovered
       -- What no longer runs has made room under a cap, and the next retry is due at a time that no claimer knows of yet.
 WHERE (SELECT count(pg_notify('task_queue_' || queue.name, 'capacity:swept'))
          FROM (SELECT DISTINCT queue_name AS name FROM recovered WHERE octet_length(queue_name) <= 52) queue) >= 0
