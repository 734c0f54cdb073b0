-- name: release_sets
-- fragment of `task_change`
/* back_in_queue */
