-- name: reschedule_refusal
-- fragment of `judged`; no action on the task since it was seen, and the time is before its deadline
COALESCE(
    /* acted_on */,
    CASE WHEN compared.good_until <= COALESCE($17::timestamptz, statement_timestamp())
         THEN 'it would be due after its good_until, so no worker would start it'
         WHEN $17::timestamptz IS NULL
              AND GREATEST(compared.enqueued_at, compared.next_retry_at) <= statement_timestamp()
         THEN 'it is due already and waits for a worker'
         WHEN GREATEST(compared.enqueued_at, compared.next_retry_at) = $17::timestamptz
         THEN 'it is due then already' END)

-- name: reschedule_sets
-- fragment of `task_change` ($17 the time, NULL: now)
enqueued_at = COALESCE($17::timestamptz, LEAST(task.enqueued_at, statement_timestamp())),
-- A delayed send has none, and would look like a retry if it got one.
next_retry_at = CASE WHEN task.next_retry_at IS NOT NULL
                     THEN COALESCE($17::timestamptz, LEAST(task.next_retry_at, statement_timestamp())) END
