-- name: release_sets
-- fragment of `task_update`
status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL
