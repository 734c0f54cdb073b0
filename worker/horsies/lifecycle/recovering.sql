-- name: stale_claims
-- recovering.requeue_stale_claims, its scan; reads only
-- ($1 threshold in ms, $2 interval of the beats in ms, $3 how many)
SELECT task.id, task.claimed_by_worker_id, task.claimed_at
  FROM horsies_tasks task
 WHERE task.status = 'CLAIMED'
       -- A row that was made CLAIMED with plain SQL may lack the time. The beats of young claims are not read.
   AND COALESCE(task.claimed_at, task.updated_at) < (SELECT horsies_silent_before($1::float8, $2::float8))
   AND COALESCE(/* claim_beat */, task.claimed_at, task.updated_at) < (SELECT horsies_silent_before($1::float8, $2::float8))
 ORDER BY task.id
 LIMIT $3

-- name: sweep_claims
-- recovering.requeue_stale_claims; the token, CLAIMED, and still no beat; skips locked rows, for the next pass
-- ($1 tasks, $2 workers, $3 claimed at, $4 threshold in ms, $5 interval of the beats in ms)
WITH stale AS MATERIALIZED (
    SELECT task.id, task.claimed_by_worker_id
      FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS seen (id, worker_id, claimed_at)
      JOIN horsies_tasks task ON task.id = seen.id
     WHERE task.id = ANY ($1)
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id IS NOT DISTINCT FROM seen.worker_id
                     AND task.claimed_at IS NOT DISTINCT FROM seen.claimed_at
                THEN COALESCE(/* claim_beat */, task.claimed_at, task.updated_at)
                     < (SELECT horsies_silent_before($4::float8, $5::float8)) END
       FOR NO KEY UPDATE OF task SKIP LOCKED
), released AS (
    UPDATE horsies_tasks task
       SET /* back_in_queue */, updated_at = statement_timestamp()
     WHERE task.id = ANY (ARRAY(SELECT id FROM stale))
    RETURNING task.id, task.queue_name
), lost AS (
    -- The row of a released claim no longer names its worker: only this insert records it.
    INSERT INTO horsies_worker_losses (worker_id, returned)
    SELECT claimed_by_worker_id, array_agg(id ORDER BY id) FROM stale
     WHERE claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
), woken AS (
    SELECT queue_name, 'capacity:swept' AS notice FROM released
)
SELECT id FROM released WHERE /* queues_notified */

-- name: running_workers
-- recovering.stale_runs; reads only: the owners of runs, and '' for those of none
SELECT DISTINCT COALESCE(claimed_by_worker_id, '') FROM horsies_tasks WHERE status = 'RUNNING'

-- name: stale_runs
-- recovering.stale_runs; reads only
-- ($1 threshold in ms, $2 threshold of finalizing marks in ms, $3 interval of the beats in ms, $4 how many, $5 workers)
WITH judged AS MATERIALIZED (
    SELECT worker_id, horsies_runs_silent_before(worker_id, $1::float8, $3::float8) AS silent_before
      FROM unnest($5::text[]) AS running (worker_id)
)
SELECT task.id, task.claimed_by_worker_id, task.claimed_at, task.retry_count, task.max_retries, task.task_options,
       task.good_until, COALESCE(task.started_at, task.claimed_at, task.updated_at) AS started_at, task.worker_pid,
       task.worker_hostname, beat.sent_at AS last_beat, statement_timestamp() AS detected_at
  FROM horsies_tasks task
  JOIN judged ON judged.worker_id = COALESCE(task.claimed_by_worker_id, '')
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE task.status = 'RUNNING'
   AND COALESCE(task.started_at, task.claimed_at, task.updated_at) < judged.silent_before
   AND COALESCE(beat.sent_at, task.started_at, task.claimed_at, task.updated_at) < judged.silent_before
   AND (task.finalizing_at IS NULL OR task.finalizing_at < (SELECT horsies_silent_before($2::float8, $3::float8)))
 ORDER BY task.id
 LIMIT $4

-- name: sweep_runs
-- recovering.recover_stale_runs; the token, RUNNING, still no beat nor a fresh finalizing mark; to run again also
-- retries left and due before good_until; skips locked rows, for the next pass
-- ($1 tasks, $2 workers, $3 claimed at, $4 delays in s, NULL to fail, $5 results, $6 messages, $7 threshold in ms, $8
-- threshold of finalizing marks in ms, $9 interval of the beats in ms)
WITH judged AS MATERIALIZED (
    SELECT worker_id, horsies_runs_silent_before(worker_id::text, $7::float8, $9::float8) AS silent_before
      FROM (SELECT DISTINCT COALESCE(worker_id, '') AS worker_id FROM unnest($2::text[]) AS seen (worker_id)) owner
), stale AS MATERIALIZED (
    SELECT task.id, task.retry_count, task.enqueued_at, task.claimed_by_worker_id, task.worker_pid, task.worker_hostname,
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
                          OR task.finalizing_at < (SELECT horsies_silent_before($8::float8, $9::float8)))
                THEN COALESCE(/* run_beat */, task.started_at, task.claimed_at, task.updated_at)
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
           -- The row of a failed task keeps its last worker, as after a finish; a PENDING one has no owner.
           claimed_at = CASE WHEN NOT again THEN task.claimed_at END,
           claimed_by_worker_id = CASE WHEN NOT again THEN task.claimed_by_worker_id END,
           started_at = CASE WHEN NOT again THEN task.started_at END,
           worker_pid = CASE WHEN NOT again THEN task.worker_pid END,
           worker_hostname = CASE WHEN NOT again THEN task.worker_hostname END,
           worker_process_name = CASE WHEN NOT again THEN task.worker_process_name END,
           claimed = false, claim_expires_at = NULL, finalizing_at = NULL, finalizing_by_worker_id = NULL,
           updated_at = statement_timestamp()
      FROM stale
           -- Not also `= ANY ($1)`: with that all 200 were read again for each of the 200, 27 ms of 34 ms for a batch.
     WHERE task.id = stale.id
    RETURNING task.id, stale.again, task.task_name, task.queue_name, stale.retry_count, stale.due, stale.message
), runs AS (
    SELECT id, retry_count, 'FAILED' AS outcome, again AS will_retry, started_at, statement_timestamp() AS finished_at,
           'WORKER_CRASHED' AS error_code, message AS error_message, message AS failed_reason,
           claimed_by_worker_id AS worker_id, worker_hostname, worker_pid, worker_process_name, NULL AS output,
           enqueued_at
      FROM stale
), /* history */, lost AS (
    -- Records for the views what happened to the tasks of the worker.
    INSERT INTO horsies_worker_losses (worker_id, failed, retried)
    SELECT claimed_by_worker_id, COALESCE(array_agg(id ORDER BY id) FILTER (WHERE NOT again), '{}'),
           COALESCE(array_agg(id ORDER BY id) FILTER (WHERE again), '{}')
      FROM stale
     WHERE claimed_by_worker_id IS NOT NULL
     GROUP BY claimed_by_worker_id
), woken AS (
    -- Tasks that no longer run make room under a cap, and the next retry is due at a time that no claimer knows yet.
    SELECT queue_name, 'capacity:swept' AS notice FROM recovered
)
SELECT id, again, task_name, queue_name, retry_count::bigint + 1 AS attempt, CASE WHEN again THEN due END AS retry_at, message
  FROM recovered
 WHERE /* queues_notified */

-- name: end_silent_sessions
-- recovering.end_silent_sessions; sessions of this product and of this role ($1 how long in ms)
-- Between the Parse of a statement and its Bind, idle_in_transaction_session_timeout does not apply, because the
-- session is active, and statement_timeout ends nothing, because the server is reading. A client that is stopped there
-- keeps its locks; only transaction_timeout, from PostgreSQL 17 on, would end it.
WITH silent AS MATERIALIZED (
    SELECT pid, application_name
      FROM pg_stat_activity
     WHERE datname = current_database() AND usename = current_user AND application_name LIKE 'horsies %'
       AND state = 'active' AND wait_event = 'ClientRead'
       AND backend_xid IS NOT NULL -- it has locked or written rows
       AND state_change < clock_timestamp() - $1 * interval '1 ms'
)
SELECT application_name FROM silent WHERE pg_terminate_backend(pid, 1000)

-- name: overdue_tasks
-- recovering.expire_pending, its scan; reads only ($1 how many)
SELECT id
  FROM horsies_tasks
 WHERE status = 'PENDING' AND good_until <= statement_timestamp()
 ORDER BY good_until
 LIMIT $1

-- name: expire_pending
-- recovering.expire_pending; PENDING, good_until passed; skips locked rows, for the next pass ($1 tasks, $2 results)
WITH overdue AS MATERIALIZED (
    SELECT task.id, seen.result
      FROM unnest($1::text[], $2::text[]) AS seen (id, result)
      JOIN horsies_tasks task ON task.id = seen.id
     WHERE task.id = ANY ($1)
       AND CASE WHEN task.status = 'PENDING' THEN task.good_until <= statement_timestamp() END
       FOR NO KEY UPDATE OF task SKIP LOCKED
)
UPDATE horsies_tasks task
   SET status = 'EXPIRED', failed_at = statement_timestamp(), result = overdue.result, error_code = 'TASK_EXPIRED',
       updated_at = statement_timestamp()
  FROM overdue
 WHERE task.id = ANY ($1) AND task.id = overdue.id
RETURNING task.id

-- name: order_holds
-- recovering.recover_worker; reads only, after the column status in the order of StaleRun ($1 worker)
SELECT task.status, task.id, task.claimed_by_worker_id, task.claimed_at, task.retry_count, task.max_retries,
       task.task_options, task.good_until, COALESCE(task.started_at, task.claimed_at, task.updated_at) AS started_at,
       task.worker_pid, task.worker_hostname, beat.sent_at AS last_beat, statement_timestamp() AS detected_at
  FROM horsies_tasks task
  LEFT JOIN LATERAL /* run_beat */ beat ON true
 WHERE task.status IN /* tasks_in_flight */ AND task.claimed_by_worker_id = $1
 ORDER BY task.id
