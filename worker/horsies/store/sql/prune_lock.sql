-- retention.py, before its families are pruned; the roots of these workflows, or the workflow itself where its root is gone;
-- one that somebody holds is left: whoever changes a family holds its root ($1 ids)
SELECT id FROM horsies_workflows
 WHERE id = ANY (ARRAY(
           SELECT COALESCE((SELECT id FROM horsies_workflows WHERE id = workflow.root_workflow_id LIMIT 1), workflow.id)
             FROM horsies_workflows workflow
            WHERE id = ANY ($1::text[])))
   FOR UPDATE SKIP LOCKED
