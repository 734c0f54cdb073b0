-- name: failed_attempt
-- fragment of `view_task_series`, `view_failures` and `activity_attempts`: an attempt that failed by itself. What an
-- operator or a workflow has ended is no failure, nor an attempt that a shutdown has interrupted and that runs again.
(outcome <> 'COMPLETED' AND NOT (will_retry AND COALESCE(error_code, '') = 'TASK_INTERRUPTED')
 AND COALESCE(error_code, '') NOT IN ('OPERATOR_FAILED', 'OPERATOR_CANCELLED', 'OPERATOR_REQUEUED', 'TASK_CANCELLED'))
