-- name: failed_attempt
-- fragment of `view_task_series`, `view_failures` and `activity_attempts`: an attempt that failed. An end by an
-- operator or a workflow is not a failure, nor is an attempt that a shutdown interrupted and that runs again.
(outcome <> 'COMPLETED' AND NOT (will_retry AND COALESCE(error_code, '') = 'TASK_INTERRUPTED')
 AND COALESCE(error_code, '') NOT IN ('OPERATOR_FAILED', 'OPERATOR_CANCELLED', 'OPERATOR_REQUEUED', 'TASK_CANCELLED'))
