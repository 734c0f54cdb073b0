-- name: definition_of_node
-- verbs/nodes.py, complete; reads only: what a node that is no plain task runs ($1 workflow, $2 index)
SELECT sub_definition_key FROM horsies_workflow_tasks WHERE workflow_id = $1 AND task_index = $2
