-- name: retry_now_refusal
-- fragment of `judged`
CASE WHEN GREATEST(compared.enqueued_at, compared.next_retry_at) <= statement_timestamp()
     THEN 'it is due already and waits for a worker' END

-- name: retry_now_sets
-- fragment of `task_change`
enqueued_at = LEAST(task.enqueued_at, statement_timestamp()),
-- LEAST of NULL and a time is the time: a delayed send would look like a retry.
next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL THEN LEAST(task.next_retry_at, statement_timestamp()) END
