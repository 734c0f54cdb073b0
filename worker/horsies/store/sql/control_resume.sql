-- controlling.resume; PAUSED, and what is paused below it; under the family's lock ($1 workflow)
WITH RECURSIVE below AS (
    SELECT id FROM horsies_workflows WHERE id = $1 AND status = 'PAUSED'
     UNION
    SELECT child.id FROM below JOIN horsies_workflows child ON child.parent_workflow_id = below.id
)
UPDATE horsies_workflows
   SET status = 'RUNNING', updated_at = statement_timestamp()
 WHERE id = ANY (ARRAY(SELECT id FROM below)) AND status = 'PAUSED'
RETURNING id
