-- planting.plant and handles: whether there is a workflow of this id, and its name ($1 id); reads only
SELECT name FROM horsies_workflows WHERE id = $1
