-- families.py, all workflows of a family; reads only ($1 its root)
SELECT id FROM horsies_workflows WHERE id = $1 OR root_workflow_id = $1
