-- name: move_refusal
-- fragment of `judged`; no action on the task since it was seen
COALESCE(
    /* acted_on */,
    CASE WHEN compared.queue_name = $17::text THEN 'it waits in that queue already' END)

-- name: move_sets
-- fragment of `task_change` ($17 the queue); the notification names the new queue, whose workers wake up
queue_name = $17::text
