-- name: view_candidates
-- views/tasks.py, which fills the slots; reads only: the rows of a source that match a filter
-- Each statement is planned for its values, so that a partial index is found to fit; one that selects from here in the
-- order of a source that is read along an index ends the scan with a LIMIT, without a sort.
SELECT row.*
       -- Upstream's tables lack these columns: a name without an alias that the table does not have is resolved here.
  FROM (VALUES (false, NULL::timestamptz, NULL::text, NULL::text))
       AS absent (is_workflow_task, finalizing_at, unique_key, rerun_of)
 CROSS JOIN LATERAL (
    SELECT task.at, task.id, task_name, queue_name, task.priority, status,
           CASE WHEN status = 'PENDING' AND next_retry_at > statement_timestamp() THEN 'RETRY'
                WHEN status = 'FAILED' AND error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED' ELSE status END AS state,
           created_at, sent_at, enqueued_at, next_retry_at, good_until, claimed_at, claim_expires_at,
           CASE WHEN status NOT IN ('PENDING', 'CLAIMED') THEN started_at END AS started_at,
           finalizing_at,
           CASE WHEN status NOT IN /* open_tasks */ THEN COALESCE(completed_at, failed_at) END
               AS finished_at,
           retry_count, max_retries, claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name, error_code,
           is_workflow_task, unique_key, rerun_of
      FROM (/* rows */) task
     WHERE /* holds */
  ) row

-- name: view_queues_that_wait
-- views/tasks.py; reads only, by one hop in the index of waiting tasks for each
WITH RECURSIVE queue (name) AS (
    (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' ORDER BY queue_name LIMIT 1)
    UNION ALL
    SELECT (SELECT queue_name FROM horsies_tasks
             WHERE status = 'PENDING' AND queue_name > queue.name ORDER BY queue_name LIMIT 1)
      FROM queue WHERE queue.name IS NOT NULL
) SELECT name FROM queue

-- name: view_running
-- views/tasks.py; reads only: all of them, of which there are as few as slots
SELECT COALESCE(started_at, claimed_at, created_at) AS at, task.* FROM horsies_tasks task WHERE status = 'RUNNING'

-- name: view_in_flight
-- views/tasks.py; reads only: all of them, of which there are as few as slots
SELECT created_at AS at, task.* FROM horsies_tasks task WHERE status IN /* tasks_in_flight */

-- name: view_live
-- views/tasks.py; reads only: those in flight and so many that wait
(SELECT created_at AS at, task.* FROM horsies_tasks task WHERE status IN /* tasks_in_flight */)
UNION ALL
(SELECT created_at AS at, task.* FROM horsies_tasks task
  WHERE status = 'PENDING'
  -- in the order of ix_horsies_tasks_ready, which is then read no further
  ORDER BY queue_name, priority, enqueued_at, id
  LIMIT /* most */)

-- name: view_by_id
-- views/tasks.py; reads only
SELECT created_at AS at, task.* FROM horsies_tasks task WHERE id = ANY (/* wanted */::text[])

-- name: view_of_workflow
-- views/tasks.py; reads only: the tasks of so many nodes of these workflows
SELECT created_at AS at, task.* FROM horsies_tasks task
 WHERE id = ANY (ARRAY(SELECT task_id FROM horsies_workflow_tasks
                        WHERE workflow_id = ANY (/* wanted */::text[]) AND task_id IS NOT NULL
                        LIMIT /* most */))

-- name: view_few_wait
-- views/tasks.py; reads only: whether at most $1 tasks are PENDING
SELECT count(*) <= $1 FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' LIMIT $1::bigint + 1) AS pending

-- name: view_duplicates
-- views/tasks.py; reads only, each task by the primary key ($1 tasks)
SELECT asked.id, counted.sends, counted.last_at
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (
       SELECT sum(sends)::bigint AS sends, max(last_at) AS last_at FROM horsies_duplicate_sends
        WHERE task_id = asked.id) counted
 WHERE counted.sends IS NOT NULL

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
