-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- A tree goes as a whole, when all of it is finished and old: the parent's row takes those of its children with it.
SELECT id, COALESCE(completed_at, updated_at, created_at) AS after, id AS after_id,
       1 + (SELECT count(*) FROM horsies_workflow_tasks WHERE workflow_id = workflow.id)::integer AS rows
  FROM horsies_workflows workflow
 WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED')
   AND COALESCE(completed_at, updated_at, created_at) < statement_timestamp() - $1 * interval '1 s'
   AND COALESCE(completed_at, updated_at, created_at) >= $2
   AND (COALESCE(completed_at, updated_at, created_at), id) > ($2, $3)
   AND NOT EXISTS (SELECT FROM horsies_workflows relative
                    WHERE (relative.root_workflow_id = COALESCE(workflow.root_workflow_id, workflow.id)
                           OR relative.id = COALESCE(workflow.root_workflow_id, workflow.id))
                      AND (relative.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
                           OR COALESCE(relative.completed_at, relative.updated_at, relative.created_at)
                              >= statement_timestamp() - $1 * interval '1 s'))
 ORDER BY COALESCE(completed_at, updated_at, created_at), id
 LIMIT $4
