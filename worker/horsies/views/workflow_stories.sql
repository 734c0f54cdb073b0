-- name: view_workflow_story
-- views/workflow_stories.py; reads only ($1 workflow, $2 characters of each text at most): what lists do not show
SELECT left(workflow.result, $2) AS result, octet_length(workflow.result) AS result_size,
       length(workflow.result) > $2 AS result_cut,
       left(workflow.error, $2) AS error, octet_length(workflow.error) AS error_size,
       length(workflow.error) > $2 AS error_cut,
       left(workflow.success_policy::text, $2) AS policy, octet_length(workflow.success_policy::text) AS policy_size,
       length(workflow.success_policy::text) > $2 AS policy_cut,
       workflow.output_task_index,
       parent.id AS parent_id, parent.name, parent.status, workflow.parent_task_index, node.node_id,
       node.status AS node_status
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflows parent ON parent.id = workflow.parent_workflow_id
  LEFT JOIN horsies_workflow_tasks node
         ON node.workflow_id = parent.id AND node.task_index = workflow.parent_task_index
 WHERE workflow.id = $1

-- name: view_workflow_nodes
-- views/workflow_stories.py; reads only ($1 workflow, $2 nodes at most, $3 one index, or NULL for all)
SELECT task_index, node_id, node.task_name, node.status, dependencies, join_type, min_success, allow_failed_deps,
       args_from, workflow_ctx_from::text[], node.queue_name, node.priority, node.task_id, task.status AS task_status,
       COALESCE(retry_count, 0) AS retry_count, COALESCE(max_retries, 0) AS max_retries,
       CASE WHEN task.status = 'PENDING' AND next_retry_at > statement_timestamp() THEN next_retry_at END
           AS next_retry_at,
       CASE WHEN node.status = 'FAILED'
            -- As in `view_workflow_candidates`; nodes that failed without a task have no other code.
            THEN COALESCE(substring(left(node.result, 600) FROM
                     '^\s*\{\s*"__task_result__"\s*:\s*true\s*,\s*"ok"\s*:\s*null\s*,\s*"err"\s*:\s*'
                     '\{\s*(?:"__task_error__"\s*:\s*true\s*,\s*)?"error_code"\s*:\s*'
                     '(?:\{\s*"__builtin_task_code__"\s*:\s*)?"([^"\\]+)"'), task.error_code)
            ELSE attempt.error_code END AS error_code,
       -- Upstream writes the time of enqueueing into a waiting node.
       CASE WHEN node.status = 'SKIPPED' THEN NULL
            WHEN task.status NOT IN ('PENDING', 'CLAIMED') THEN COALESCE(task.started_at, node.started_at)
            WHEN node.status <> 'ENQUEUED' THEN node.started_at END AS started_at,
       node.completed_at, beat.sent_at AS last_beat, task.claimed_by_worker_id, task.worker_hostname, task.worker_pid,
       is_subworkflow, sub_workflow_id, sub_definition_key, child.status AS sub_status, inside.total, inside.done,
       inside.failed
  FROM horsies_workflow_tasks node
  LEFT JOIN horsies_tasks task ON task.id = node.task_id
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = task.id AND role = CASE task.status WHEN 'RUNNING' THEN 'runner' ELSE 'claimer' END
           AND sent_at >= CASE task.status WHEN 'RUNNING' THEN task.started_at ELSE task.claimed_at END
         ORDER BY sent_at DESC
         LIMIT 1) beat ON task.status IN /* tasks_in_flight */
  LEFT JOIN LATERAL (
        SELECT error_code FROM horsies_task_attempts
         WHERE task_id = task.id
         ORDER BY attempt DESC
         LIMIT 1) attempt ON task.status IN /* open_tasks */ AND retry_count > 0
  LEFT JOIN horsies_workflows child ON child.id = node.sub_workflow_id
  LEFT JOIN LATERAL (
        SELECT count(*) AS total, count(*) FILTER (WHERE status IN /* ended_nodes */) AS done,
               count(*) FILTER (WHERE status = 'FAILED') AS failed
          FROM horsies_workflow_tasks
         WHERE workflow_id = child.id) inside ON child.id IS NOT NULL
 WHERE node.workflow_id = $1 AND ($3::integer IS NULL OR task_index = $3)
 ORDER BY task_index
 LIMIT $2

-- name: view_node_story
-- views/workflow_stories.py; reads only ($1 workflow, $2 index, $3 characters of each text at most): texts of a node
SELECT statement_timestamp() AS now, workflow.id, workflow.name, workflow.status,
       left(task_args, $3) AS args, octet_length(task_args) AS args_size, length(task_args) > $3 AS args_cut,
       left(task_kwargs, $3) AS kwargs, octet_length(task_kwargs) AS kwargs_size, length(task_kwargs) > $3 AS kwargs_cut,
       left(task_options, $3) AS options, octet_length(task_options) AS options_size,
       length(task_options) > $3 AS options_cut,
       left(node.result, $3) AS result, octet_length(node.result) AS result_size,
       length(node.result) > $3 AS result_cut,
       left(sub_workflow_summary, $3) AS summary, octet_length(sub_workflow_summary) AS summary_size,
       length(sub_workflow_summary) > $3 AS summary_cut
  FROM horsies_workflow_tasks node
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE node.workflow_id = $1 AND task_index = $2

-- name: view_workflow_runs
-- views/workflow_stories.py; reads only: the ended attempts of the nodes' tasks, each node's by
-- uq_horsies_task_attempts_task_attempt ($1 workflow, $2 attempts at most)
SELECT node.task_index, attempt.started_at, attempt.finished_at, attempt.outcome
  FROM horsies_workflow_tasks node
 CROSS JOIN LATERAL (
        SELECT started_at, finished_at, outcome FROM horsies_task_attempts
         WHERE task_id = node.task_id
         ORDER BY attempt
         LIMIT 100) attempt
 WHERE node.workflow_id = $1
 ORDER BY node.task_index, attempt.started_at
 LIMIT $2
