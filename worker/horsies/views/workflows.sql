-- name: view_workflow_candidates
-- views/workflows.py, which fills the slots; reads only: the rows of a source that match a filter
SELECT workflow.*, error_code
  FROM (/* rows */) workflow
       -- Stored as text that may be damaged, with the code in front; for a built-in code the name is inside an object.
 CROSS JOIN LATERAL (
       SELECT substring(left(error, 600) FROM '^\s*\{\s*(?:"__task_error__"\s*:\s*true\s*,\s*)?"error_code"\s*:\s*'
                                              '(?:\{\s*"__builtin_task_code__"\s*:\s*)?"([^"\\]+)"') AS error_code
      ) code
 WHERE /* holds */

-- name: view_workflows_by_id
-- views/workflows.py; reads only
SELECT created_at AS at, workflow.* FROM horsies_workflows workflow WHERE id = ANY (/* wanted */::text[])

-- name: view_workflows_of_parents
-- views/workflows.py; reads only
SELECT created_at AS at, workflow.* FROM horsies_workflows workflow
 WHERE parent_workflow_id = ANY (/* wanted */::text[])
 LIMIT /* most */

-- name: view_workflow_page
-- views/workflows.py; reads only, from the rows of `view_workflow_candidates` ($1 at most)
-- Without a match: one row without an id.
SELECT statement_timestamp() AS now, page.id, name, page.status, on_error, definition_key, parent_workflow_id,
       parent_task_index, COALESCE(root_workflow_id, page.id) AS root_workflow_id, depth, page.created_at, sent_at,
       page.started_at, page.completed_at, updated_at, nodes.total, nodes.completed, nodes.failed, nodes.skipped,
       nodes.running, nodes.total - nodes.completed - nodes.failed - nodes.skipped - nodes.running AS waiting, error_code,
       (SELECT COALESCE(node_id, task_index::text) FROM horsies_workflow_tasks
         WHERE workflow_id = page.id AND task_index = nodes.first_failed) AS failed_node
  FROM (SELECT) always
  LEFT JOIN (
        SELECT * FROM workflow
         ORDER BY /* order */
         LIMIT $1
       ) page ON true
  LEFT JOIN LATERAL (
        SELECT count(*) AS total,
               count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
               count(*) FILTER (WHERE status = 'FAILED') AS failed,
               count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
               count(*) FILTER (WHERE status = 'RUNNING') AS running,
               min(task_index) FILTER (WHERE status = 'FAILED') AS first_failed
          FROM horsies_workflow_tasks
         WHERE workflow_id = page.id) nodes ON true
 ORDER BY /* order */

-- name: view_workflow_matching
-- views/workflows.py; reads only: the workflows that an operation acts on, newest first
-- (from the rows of `view_workflow_candidates`, $1 at most)
SELECT id FROM workflow
 ORDER BY /* order */
 LIMIT $1

-- name: view_workflow_counts
-- views/workflows.py; reads only, from the rows of `view_workflow_candidates`
SELECT status, count(*) AS number FROM workflow GROUP BY status

-- name: view_workflow_values
-- views/workflows.py; reads only, from the rows of `view_workflow_candidates` ($1 a column, $2 values at most)
SELECT CASE $1::text WHEN 'name' THEN name WHEN 'definition_key' THEN definition_key WHEN 'error_code' THEN error_code END
       AS value
  FROM workflow
 GROUP BY 1
 ORDER BY count(*) DESC, 1
 LIMIT $2
