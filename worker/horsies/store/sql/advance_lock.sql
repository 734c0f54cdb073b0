-- advancing.lock_families; the roots of these workflows, in the order of their ids as everybody does ($1 workflows)
SELECT id
  FROM horsies_workflows
 WHERE id = ANY (ARRAY(SELECT COALESCE(root_workflow_id, id) FROM horsies_workflows WHERE id = ANY ($1)))
 ORDER BY id FOR NO KEY UPDATE
