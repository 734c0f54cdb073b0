-- name: view_workflow_candidates
-- views/workflow_search.py, which fills the slots; reads only: the rows of a source that match a filter
SELECT workflow.*, error_code
  FROM (/* rows */) workflow
       -- Stored as text that may be damaged, with the code in front; for a built-in code the name is inside an object.
 CROSS JOIN LATERAL (
       SELECT substring(left(error, 600) FROM '^\s*\{\s*(?:"__task_error__"\s*:\s*true\s*,\s*)?"error_code"\s*:\s*'
                                              '(?:\{\s*"__builtin_task_code__"\s*:\s*)?"([^"\\]+)"') AS error_code
      ) code
 WHERE /* holds */

-- name: view_workflows_by_id
-- views/workflow_search.py; reads only
SELECT created_at AS at, workflow.* FROM horsies_workflows workflow WHERE id = ANY (/* wanted */::text[])

-- name: view_workflows_of_parents
-- views/workflow_search.py; reads only
SELECT created_at AS at, workflow.* FROM horsies_workflows workflow
 WHERE parent_workflow_id = ANY (/* wanted */::text[])
 LIMIT /* most */
