-- by_hand.retry_now; the row as the person saw it, PENDING and not due
-- ($1 tasks, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
--  $9 OS host, $10 reason, $11 filter)
WITH held AS MATERIALIZED (
    SELECT id, status, queue_name, claimed_by_worker_id, claimed_at, started_at, failed_at, retry_count, max_retries,
           enqueued_at, next_retry_at, good_until
      FROM horsies_tasks
     WHERE id = ANY ($1)
     ORDER BY id FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT seen.number, seen.id, jsonb_strip_nulls(to_jsonb(held)) AS before,
           CASE WHEN held.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (held.status, held.claimed_by_worker_id, held.claimed_at, held.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR held.status <> 'PENDING'
                THEN 'it is ' || held.status
                     || CASE WHEN held.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(held.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || held.retry_count + 1
                WHEN GREATEST(held.enqueued_at, held.next_retry_at) <= statement_timestamp() THEN 'it is due already'
           END AS refusal
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[]) WITH ORDINALITY
           AS seen (id, status, worker_id, claimed_at, retry_count, number)
      LEFT JOIN held ON held.id = seen.id
), hurried AS (
    UPDATE horsies_tasks task
       SET enqueued_at = LEAST(task.enqueued_at, statement_timestamp()),
           -- LEAST of NULL and a time is the time: a delayed send would look like a retry.
           next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL
                                THEN LEAST(task.next_retry_at, statement_timestamp()) END,
           updated_at = statement_timestamp()
      FROM judged
     WHERE task.id = ANY ($1) AND task.id = judged.id
       -- In a CASE, for of IS NULL the planner expects one row, and would read the array anew for each: 40 ms instead of 6.
       AND CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING judged.number, task.id, task.queue_name, task.retry_count, task.enqueued_at, task.claimed_at,
              task.started_at, task.failed_at
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.id, CASE WHEN hurried.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           judged.before,
           CASE WHEN hurried.id IS NOT NULL
                THEN jsonb_strip_nulls(jsonb_build_object(
                         'status', 'PENDING', 'retry_count', hurried.retry_count, 'enqueued_at', hurried.enqueued_at,
                         'claimed_at', hurried.claimed_at, 'started_at', hurried.started_at, 'failed_at', hurried.failed_at)) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN hurried ON hurried.number = judged.number
     ORDER BY judged.number
), told AS MATERIALIZED (
    -- No trigger tells of a task that falls due.
    SELECT pg_notify('task_queue_' || queue_name, 'retry:' || min(id)) FROM hurried GROUP BY queue_name
)
SELECT judged.number, judged.refusal, hurried.retry_count
  FROM judged
  LEFT JOIN hurried ON hurried.number = judged.number
 WHERE (SELECT count(*) FROM told) >= 0
