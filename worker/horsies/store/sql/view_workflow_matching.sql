-- views/workflows.py; reads only: what an operation acts on, newest first ($1 to $38 as in view_workflow_candidates.sql,
-- $39 rows at most)
SELECT id FROM workflow
 ORDER BY created_at DESC, id DESC
 LIMIT $39
