-- name: view_task_page
-- views/tasks.py; reads only, from the rows of `view_candidates` ($1 rows at most)
-- Without a match: one row without an id.
SELECT statement_timestamp() AS now, page.id, task_name, queue_name, page.priority, page.status, state, created_at,
       page.sent_at, enqueued_at, next_retry_at, good_until, claimed_at, claim_expires_at, started_at, finalizing_at,
       finished_at, retry_count, max_retries, claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name,
       COALESCE(page.error_code, CASE page.status WHEN 'PENDING' THEN attempt.error_code END) AS error_code,
       is_workflow_task, unique_key, rerun_of, beat.sent_at AS beat_at, attempt.error_message
  FROM (SELECT) always
  LEFT JOIN (
        SELECT * FROM task
         ORDER BY /* order */
         LIMIT $1
       ) page ON true
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = page.id AND role = CASE page.status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END
           AND sent_at >= CASE page.status WHEN 'RUNNING' THEN page.started_at ELSE page.claimed_at END
         ORDER BY sent_at DESC
         LIMIT 1) beat ON page.status IN /* tasks_in_flight */
  LEFT JOIN LATERAL (
        -- The beginning only: of a message of megabytes no more is read.
        SELECT error_code, left(COALESCE(error_message, failed_reason), 200) AS error_message
          FROM horsies_task_attempts
         WHERE task_id = page.id
         ORDER BY attempt DESC
         LIMIT 1) attempt ON page.status = 'FAILED' OR (page.status = 'PENDING' AND page.retry_count > 0)
 ORDER BY /* order */

-- name: view_task_matching
-- views/tasks.py; reads only: the rows that an operation freezes, as ExpectedState
-- (from the rows of `view_candidates`, $1 at most)
SELECT id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, retry_count, error_code,
       good_until, finalizing_at, is_workflow_task
  FROM task
 ORDER BY /* order */
 LIMIT $1
