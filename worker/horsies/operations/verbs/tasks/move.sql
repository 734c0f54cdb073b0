-- name: move_refusal
-- fragment of `task_judged`; no action on the task since it was seen
COALESCE(
    /* others */,
    CASE WHEN compared.queue_name = /* value */::text THEN 'it waits in that queue already' END)

-- name: move_sets
-- fragment of `task_update` ($17 the queue); the notification names the new queue, whose workers wake up
queue_name = $17::text
